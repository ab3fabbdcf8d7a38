"""What does this outcome come to? Called by the protocol core when an attempt ends.

Invariant: retry or end follows from the contracts' failure table alone; a superseded attempt never gets a terminal record.
"""

from dataclasses import dataclass
from enum import StrEnum

from headrace.contracts.clock import Now
from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.values import Failure
from headrace.inference_worker.decisions.when_to_retry import when_to_retry
from headrace.inference_worker.outcome import Outcome


class StopReason(StrEnum):
    """Why a running attempt was stopped: the owner's CancelReason, or our own drain."""

    CALLER = "caller"
    OPERATOR = "operator"
    DEADLINE = "deadline"
    SUPERSEDED = "superseded"
    PREEMPTED = "preempted"
    DRAINED = "drained"


@dataclass(frozen=True, slots=True)
class Settlement:
    """`status` and `http_status` when the request ends here; `retry_ms` (Unix ms) when it goes back to the queue."""

    verdict: Verdict
    status: Status | None = None
    http_status: int = 200
    failure: Failure | None = None
    retry_ms: int | None = None


_ENDS_AS = {
    FailureKind.CANCELLED_BY_CALLER: Status.CANCELLED,
    FailureKind.CANCELLED_BY_OPERATOR: Status.CANCELLED,
    FailureKind.DEADLINE_PASSED: Status.EXPIRED,
    FailureKind.QUEUE_TIMEOUT: Status.EXPIRED,
}
_ABORTED_AS = {
    StopReason.CALLER: FailureKind.CANCELLED_BY_CALLER,
    StopReason.OPERATOR: FailureKind.CANCELLED_BY_OPERATOR,
    StopReason.DEADLINE: FailureKind.DEADLINE_PASSED,
    StopReason.PREEMPTED: FailureKind.PREEMPTED,
}


def settle(outcome: Outcome, stop: StopReason | None, now: Now) -> Settlement:
    """Done, or back to the queue. `stop` is why it was told to stop, if it was."""
    if stop is StopReason.SUPERSEDED:
        # the request is finished already: this only tells the owner that the attempt is over, and what it used
        return Settlement(Verdict.RETRY_AT, retry_ms=now.wall_ms)
    failure = _aborted(stop) if outcome.aborted else outcome.failure
    if failure is None:
        return Settlement(Verdict.DONE, Status.SUCCEEDED, outcome.http_status or 200)
    rule = rule_of(failure.kind)
    if rule.retryable:
        return Settlement(Verdict.RETRY_AT, failure=failure, retry_ms=when_to_retry(failure, now))
    status = _ENDS_AS.get(failure.kind, Status.FAILED)
    return Settlement(Verdict.DONE, status, outcome.http_status or rule.http_status, failure)


def _aborted(stop: StopReason | None) -> Failure:
    kind = _ABORTED_AS.get(stop, FailureKind.WORKER_DRAINED) if stop else FailureKind.WORKER_DRAINED
    return Failure(kind=kind, message=rule_of(kind).sentence)
