"""What the owner found of a pool's queue, as people read it. Used by `headrace queue`. Pure but for what it prints."""

from datetime import timedelta

from headrace.cli.owner_asking import Looked
from headrace.cli.terminal import show_table
from headrace.contracts.durations import render
from headrace.contracts.policy import SERVICE_UNIT
from headrace.contracts.selections import Found, FoundRequest, Stage


def summary_of(pool: str, found: Found) -> str:
    """How many there are, as a sentence."""
    told = f"{found.queued} wait and {found.running} run in {pool} that fit"
    if len(found.requests) < found.queued + found.running and found.requests:
        told += f"; these are the oldest {len(found.requests)}"
    if found.unread_partitions:
        told += f"; {found.unread_partitions} request partitions have full windows, so more may stand in their logs"
    return told


def show_found(looked: Looked) -> None:
    """The table, where there is anything to show."""
    found = looked.found
    columns = ("request", "tenant", "tier", "model", "state", "age", "attempts", "priority", "cost")
    if found.requests:
        rows = (_as_row(each, looked.owner_ms) for each in found.requests)
        show_table(columns, rows, dispensable=("attempts", "priority", "cost"))


def _as_row(request: FoundRequest, owner_ms: int) -> tuple[str, ...]:
    age = timedelta(seconds=max(0, owner_ms - request.accepted_ms) // 1000)
    return (
        request.id,
        request.tenant,
        request.tier,
        request.model,
        Stage(request.stage).value,
        render(age),
        str(request.attempts),
        str(request.priority),
        str(-(-request.cost // SERVICE_UNIT)),
    )
