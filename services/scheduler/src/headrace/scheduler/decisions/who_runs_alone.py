"""With whom suspects of the same deaths are tried, and where. Called by core.quarantine.

Invariant: up to 8 run one by one; more are halved, and each half runs together, so that a search costs about log2 deaths;
no more run together than the worker may hold.
"""

from collections.abc import Sequence
from datetime import timedelta

from headrace.contracts.durations import ms

MOST_SINGLY = 8
LONGEST_TURN, MOST_PATIENT_TURN = timedelta(seconds=10), timedelta(minutes=10)
TOGETHER = "/"
"""In the name of a group: its members are a part of a larger one and run together."""


def parts_of(members: Sequence[str], limit: int) -> list[list[str]]:
    """The parts in which more than 8 suspects run; each of up to 8 is a part by itself. `limit` is the worker's."""
    if len(members) <= MOST_SINGLY:
        return [[member] for member in members]
    size = max(1, min((len(members) + 1) // 2, limit))
    return [list(members[at : at + size]) for at in range(0, len(members), size)]


def may_begin(*, workers: int, work_waits: bool, rest_until_ms: int, boot_ms: int) -> bool:
    """Whether a worker may be set apart now. The only one of a pool must have done other work for a while before."""
    return workers > 1 or (workers == 1 and (not work_waits or boot_ms >= rest_until_ms))


def is_turn_over(
    *, workers: int, work_waits: bool, since_ms: int, boot_ms: int, longest: timedelta = LONGEST_TURN
) -> bool:
    """Whether the only worker goes back to other work, between two trials; also when something long keeps it from being
    empty, so that no trial began.
    """
    too_long = boot_ms - since_ms >= ms(longest)
    return workers <= 1 and work_waits and too_long


def next_turn(longest: timedelta, *, trials: int) -> timedelta:
    """How long the next turn may last: twice as long after one in which the worker never got empty, so that it will."""
    return LONGEST_TURN if trials else min(2 * longest, MOST_PATIENT_TURN)
