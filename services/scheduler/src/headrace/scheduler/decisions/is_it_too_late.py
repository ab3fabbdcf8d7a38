"""Whether a request whose turn has come would only waste a slot. Called by core.releasing, as each is picked.

Invariant: what has no deadline is never too late, and what a tenant within its part of the slots asks for is tried as long as
one token could come in time: the estimate is of the longer answers, and where nothing else of that tenant could use the slot
better it would only drop what may well be short.
"""

from fractions import Fraction
from typing import NamedTuple

from headrace.contracts.failures import FailureKind


class TooLate(NamedTuple):
    """Why it is dropped, and by how much it would miss its deadline, in ms."""

    kind: FailureKind
    by_ms: int


class Takes(NamedTuple):
    """How long it takes from now to its first token, and to its end if it is long: 9 of 10 are no longer. In ms."""

    token_ms: int
    answer_ms: int


def is_spared(*, waiting: int, in_flight: int, slots: int, part: Fraction) -> bool:
    """Whether a request isn't judged by the estimate: it waits alone, or its tenant wants no more at a time than its part
    of the pool's slots. `waiting`, with it, and `in_flight`: of its tenant in its tier.
    """
    return waiting == 1 or waiting + in_flight <= slots * part


def is_it_too_late(
    finish_by_ms: int | None, wall_ms: int, takes: Takes | None, *, spared: bool
) -> TooLate | None:
    """Why it is dropped, without a charge; None: it isn't. `takes` None: unknown; `spared` as above."""
    if finish_by_ms is None:
        return None
    if wall_ms >= finish_by_ms:
        return TooLate(FailureKind.DEADLINE_PASSED, wall_ms - finish_by_ms)
    if takes is None:
        return None
    by_ms = wall_ms + (takes.token_ms if spared else takes.answer_ms) - finish_by_ms
    return TooLate(FailureKind.DEADLINE_INFEASIBLE, by_ms) if by_ms > 0 else None
