"""Whether a request whose turn has come would only waste a slot. Called by core.releasing, as each is picked.

Invariant: what has no deadline is never too late, and a tenant's only waiting request is tried as long as one token could
come in time: the estimate is of the longer answers, and used on who waits alone it would only drop those.
"""

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


def is_it_too_late(
    finish_by_ms: int | None, wall_ms: int, takes: Takes | None, *, alone: bool
) -> TooLate | None:
    """Why it is dropped, without a charge; None: it isn't.

    `takes` None: unknown. `alone`: no other request of its tenant waits in its tier.
    """
    if finish_by_ms is None:
        return None
    if wall_ms >= finish_by_ms:
        return TooLate(FailureKind.DEADLINE_PASSED, wall_ms - finish_by_ms)
    if takes is None:
        return None
    by_ms = wall_ms + (takes.token_ms if alone else takes.answer_ms) - finish_by_ms
    return TooLate(FailureKind.DEADLINE_INFEASIBLE, by_ms) if by_ms > 0 else None
