"""Whether a record that others wrote may be true. Called by the core before it folds one.

Invariant: what contradicts itself, its place or what is known moves no counter and finishes nothing; what a zombie may
honestly have written isn't called a lie.
"""

from collections.abc import Callable
from typing import NamedTuple

from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId, names_place
from headrace.contracts.lifecycle import is_terminal
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.reports import Report
from headrace.contracts.values import Origin

Lie = tuple[FailureKind, str]
"""The reason for the dead letter, and a sentence."""


class Known(NamedTuple):
    """What the owner has read of the request itself."""

    origin: Origin
    tenant: str


class Before(NamedTuple):
    """The latest attempt of the request that the owner knows of, and how many tries it is."""

    attempt: AttemptId
    attempts: int


def lie_in_attempt(
    record: AttemptRecord, *, partition: int, pool: str, tier: str, known: Known | None
) -> Lie | None:
    """What it says of its request. `partition` is where the record stands, `tier` that of its origin's topic."""
    kind = FailureKind.LYING_ATTEMPT
    if known is not None and known.tenant != record.tenant:
        return FailureKind.FOREIGN_TENANT, "Its tenant isn't that of its request."
    if known is not None and known.origin != record.origin:
        return kind, "Its origin isn't that of its request."
    if record.tier != tier or record.origin.partition != partition:
        return kind, "Its tier or partition isn't that of its origin."
    # The owner's own end of a lying request names what that request named; it moves no counter.
    named = names_place(record.id, pool=pool, tier=tier, partition=partition)
    if known is None and record.started and not named:
        return kind, "Its request's id names another place."
    ends = record.verdict is not Verdict.RETRY_AT
    if ends and (record.status is None or not is_terminal(record.status)):
        return kind, "It ends its request without saying how."
    return None


def lie_in_order(record: AttemptRecord, *, last_issued: AttemptId, before: Before | None) -> Lie | None:
    """What it says of its own number. `last_issued` is the latest attempt of this owner, of whichever request."""
    issued = record.attempt.epoch != last_issued.epoch or record.attempt.sequence <= last_issued.sequence
    if 0 in record.attempt or not issued:
        return FailureKind.LYING_ATTEMPT, f"The attempt {record.attempt} was never released."
    if record.verdict is not Verdict.RETRY_AT or before is None:
        return None
    if record.attempt == before.attempt and record.attempts > before.attempts + 1:
        return (
            FailureKind.LYING_ATTEMPT,
            f"It is try {before.attempts} of its request, not {record.attempts}.",
        )
    if record.attempt >= before.attempt and record.attempts < before.attempts:
        return (
            FailureKind.ATTEMPT_BACKWARDS,
            f"It says that it is try {record.attempts} of its request, which had {before.attempts} already.",
        )
    return None


def lie_in_report(
    report: Report,
    *,
    lanes: int,
    tier_of: Callable[[Origin], str | None],
    tenant_of: Callable[[str], str | None],
) -> Lie | None:
    """What a worker says of itself and of what it holds.

    `tier_of` tells the tier of an origin, `tenant_of` that of a request; None: this owner doesn't know.
    """
    if report.lane >= lanes:
        return FailureKind.LYING_REPORT, f"The pool has no lane {report.lane}."
    for held in report.held:
        if tier_of(held.origin) not in (None, held.tier):
            return FailureKind.LYING_REPORT, f"It holds {held.id[:100]} in a tier that its origin isn't of."
        if tenant_of(held.id) not in (None, held.tenant):
            return FailureKind.FOREIGN_TENANT, f"It holds {held.id[:100]} of another tenant."
    return None
