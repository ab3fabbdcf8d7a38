"""`headrace queue`: which requests wait and run in a pool, and what an operator may do to many of them at once."""

from datetime import timedelta
from typing import Annotated

import msgspec
import typer

from headrace.cli.commands.freezing import FREEZING
from headrace.cli.log_reading import Logs, logs_of
from headrace.cli.options import (
    AsJson,
    Kafka,
    PolicyFile,
    Prefix,
    policy_of,
    require_pool,
    settings_of,
)
from headrace.cli.owner_asking import Looked, ask, ask_the_time, await_none
from headrace.cli.queue_filters import (
    IdPrefix,
    InState,
    OfModel,
    OfTenant,
    OfTier,
    OlderThan,
    State,
    Within,
    age_of,
    older,
    patience_of,
    selection_of,
    until,
)
from headrace.cli.terminal import say, say_json, show_table
from headrace.cli.trouble import Trouble
from headrace.contracts.control import CancelMatching
from headrace.contracts.durations import render
from headrace.contracts.policy import SERVICE_UNIT
from headrace.contracts.selections import MOST_FOUND, Found, FoundRequest, Selection, Stage

_EXAMPLES = 10
Pool = Annotated[str, typer.Argument(help="The pool whose queue is meant.")]


def commands() -> typer.Typer:
    """The group `queue`."""
    app = typer.Typer(help="What waits and runs in a pool.", no_args_is_help=True)
    for command in (ls, cancel, *FREEZING):
        app.command(command.__name__)(command)
    return app


def ls(
    pool: Pool,
    *,
    tier: OfTier = None,
    tenant: OfTenant = None,
    model: OfModel = None,
    id_prefix: IdPrefix = None,
    state: InState = State.ANY,
    older_than: OlderThan = None,
    most: Annotated[
        int, typer.Option(min=0, max=MOST_FOUND, help="How many to name: the oldest of those that fit.")
    ] = 20,
    within: Within = "60s",
    policy: PolicyFile = None,
    kafka: Kafka = None,
    prefix: Prefix = None,
    as_json: AsJson = False,
) -> None:
    """Count the unfinished requests that fit, and name the oldest of them."""
    settings = settings_of(policy=policy, kafka=kafka, prefix=prefix)
    require_pool(settings, pool)
    selection = selection_of(
        policy_of(settings), tier=tier, tenant=tenant, model=model, id_prefix=id_prefix, state=state
    )
    age, patience = age_of(older_than), patience_of(within)
    with logs_of(settings) as logs:
        looked = ask(logs, pool, _of_age(logs, pool, selection, age, patience), most, patience)
    if as_json:
        say_json({"pool": pool, **msgspec.to_builtins(looked.found, str_keys=True)})
        return
    show_found(looked)
    say(summary_of(pool, looked.found))


def cancel(
    pool: Pool,
    *,
    tier: OfTier = None,
    tenant: OfTenant = None,
    model: OfModel = None,
    id_prefix: IdPrefix = None,
    state: InState = State.QUEUED,
    older_than: OlderThan = None,
    everything: Annotated[bool, typer.Option("--all", help="No filter: all of the pool.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what it would end.")] = False,
    within: Within = "60s",
    policy: PolicyFile = None,
    kafka: Kafka = None,
    prefix: Prefix = None,
    as_json: AsJson = False,
) -> None:
    """End the requests that fit and were accepted until now; without --yes, only say which they are."""
    settings = settings_of(policy=policy, kafka=kafka, prefix=prefix)
    require_pool(settings, pool)
    _refuse_all(everything, tier, tenant, model, id_prefix, older_than)
    selection = selection_of(
        policy_of(settings), tier=tier, tenant=tenant, model=model, id_prefix=id_prefix, state=state
    )
    age, patience = age_of(older_than), patience_of(within)
    with logs_of(settings) as logs:
        meant = _of_age(logs, pool, selection, age, patience)
        if yes:
            meant = until(meant, logs.ends_of_requests(pool, policy_of(settings)))
        looked = ask(logs, pool, meant, _EXAMPLES, patience)
        if yes:
            logs.order(pool, CancelMatching(selection=meant, before_ms=looked.owner_ms))
            await_none(logs, pool, meant, patience)
    if as_json:
        say_json({"pool": pool, "dry_run": not yes, **msgspec.to_builtins(looked.found, str_keys=True)})
    else:
        show_found(looked)
        say(summary_of(pool, looked.found))
        say("they were cancelled" if yes else "nothing was done: --yes cancels them")


def _of_age(
    logs: Logs, pool: str, selection: Selection, age: timedelta | None, within: timedelta
) -> Selection:
    return selection if age is None else older(selection, age, ask_the_time(logs, pool, within))


def _refuse_all(everything: bool, *filters: str | None) -> None:
    named = any(each is not None for each in filters)
    if not named and not everything:
        raise Trouble("no filter is given: name what to cancel, such as --tenant NAME, or say --all")
    if named and everything:
        raise Trouble("--all takes no filter beside it")


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
