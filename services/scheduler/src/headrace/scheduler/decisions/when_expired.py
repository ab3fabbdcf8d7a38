"""When a request has waited too long or its deadline has passed. Called by the core.

Invariant: a request without a deadline is dropped by its queue time-out alone, and a running one by its deadline alone.
"""

from headrace.contracts.failures import FailureKind


def expires_ms(start_by_ms: int | None, finish_by_ms: int | None, *, waiting: bool) -> int | None:
    """The Unix ms at which it ends if nothing happens before; None: never by time."""
    if start_by_ms is None or not waiting:
        return finish_by_ms
    return start_by_ms if finish_by_ms is None else min(start_by_ms, finish_by_ms)


def expired_as(start_by_ms: int | None, finish_by_ms: int | None, wall_ms: int) -> FailureKind | None:
    """Why a waiting request has expired; None: it hasn't. A passed deadline is the stronger reason."""
    if finish_by_ms is not None and wall_ms >= finish_by_ms:
        return FailureKind.DEADLINE_PASSED
    if start_by_ms is not None and wall_ms >= start_by_ms:
        return FailureKind.QUEUE_TIMEOUT
    return None


def start_by_of(accepted_ms: int, start_by_ms: int | None, *, used: int, due_ms: int) -> int | None:
    """The instant by which a request must start.

    The time an attempt ran isn't time waited: after a failed attempt (`used` > 0) the queue time-out begins anew when the
    next try is due. Attempts are bounded, so this is too.
    """
    if start_by_ms is None or used == 0:
        return start_by_ms
    return due_ms + max(0, start_by_ms - accepted_ms)
