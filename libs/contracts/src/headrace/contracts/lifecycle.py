"""The request lifecycle: every state and every legal move, in one table. Used by every service and by the checker.

Invariant: a terminal state has no moves. A refused request has no state; accepted means queued.
"""

from enum import StrEnum


class Status(StrEnum):
    """Where a request is. The values are the words of the public API."""

    QUEUED = "queued"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    DEAD_LETTERED = "dead_lettered"


_ENDS = frozenset({Status.SUCCEEDED, Status.FAILED, Status.EXPIRED, Status.CANCELLED, Status.DEAD_LETTERED})

MOVES: dict[Status, frozenset[Status]] = {
    # succeeded and failed straight from queued or dispatched: the late result of an earlier attempt
    Status.QUEUED: _ENDS | {Status.DISPATCHED},
    Status.DISPATCHED: _ENDS | {Status.RUNNING, Status.QUEUED},
    Status.RUNNING: _ENDS | {Status.QUEUED},
    **dict.fromkeys(_ENDS, frozenset[Status]()),
}


def is_terminal(status: Status) -> bool:
    """Whether a request in this state stays in it for ever."""
    return not MOVES[status]


def may_move(before: Status, after: Status) -> bool:
    """Whether `before -> after` is one legal move."""
    return after in MOVES[before]


def may_reach(before: Status, after: Status) -> bool:
    """Whether `after` may be seen some time after `before`: observers miss states, so any path will do."""
    seen, todo = set[Status](), [before]
    while todo:
        for status in MOVES[todo.pop()] - seen:
            seen.add(status)
            todo.append(status)
    return before == after or after in seen
