"""Whether a record that others wrote agrees with what the owner knows. Called by the core before it folds one.

What can't be true whatever is known stands in headrace.contracts.lies. Invariant: what contradicts what is known moves no
counter and finishes nothing; what a zombie may honestly have written isn't called a lie.
"""

from collections.abc import Callable
from typing import NamedTuple

from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lies import Lie
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.reports import Report
from headrace.contracts.values import Origin


class Before(NamedTuple):
    """The latest attempt of the request that the owner knows of, and how many tries it is."""

    attempt: AttemptId
    attempts: int


def lie_about_request(record: AttemptRecord, *, origin: Origin, tenant: str) -> Lie | None:
    """What it says of its request, which the owner has read, and which is this tenant's and stands there."""
    if tenant != record.tenant:
        return Lie(FailureKind.FOREIGN_TENANT, "Its tenant isn't that of its request.")
    if origin != record.origin:
        return Lie(FailureKind.LYING_ATTEMPT, "Its origin isn't that of its request.")
    return None


def lie_in_order(record: AttemptRecord, *, epoch: int, sequence: int, before: Before | None) -> Lie | None:
    """What it says of its own number. `epoch`, `sequence`: of the latest attempt of this owner, of whichever request."""
    issued = record.attempt.epoch != epoch or record.attempt.sequence <= sequence
    if 0 in record.attempt or not issued:
        return Lie(FailureKind.LYING_ATTEMPT, f"The attempt {record.attempt} was never released.")
    if record.verdict is not Verdict.RETRY_AT or before is None:
        return None
    if record.attempt == before.attempt and record.attempts > before.attempts + 1:
        return Lie(
            FailureKind.LYING_ATTEMPT,
            f"It is try {before.attempts} of its request, not {record.attempts}.",
        )
    if record.attempt >= before.attempt and record.attempts < before.attempts:
        return Lie(
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
        return Lie(FailureKind.LYING_REPORT, f"The pool has no lane {report.lane}.")
    for held in report.held:
        if tier_of(held.origin) not in (None, held.tier):
            return Lie(
                FailureKind.LYING_REPORT, f"It holds {held.id[:100]} in a tier that its origin isn't of."
            )
        if tenant_of(held.id) not in (None, held.tenant):
            return Lie(FailureKind.FOREIGN_TENANT, f"It holds {held.id[:100]} of another tenant.")
    return None
