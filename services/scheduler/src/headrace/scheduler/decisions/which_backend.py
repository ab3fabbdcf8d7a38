"""Which worker gets the next attempt. Called by the core for each release.

Invariant: of those with room, the least loaded in proportion to its limit; how much room one has is
how_much_may_a_backend_hold's to say.
"""

from typing import NamedTuple

_SCALE = 1_000_000


class Candidate(NamedTuple):
    """A worker as this question sees it."""

    boot: str
    limit: int
    held: int
    room: int


def load_of(candidate: Candidate) -> tuple[int, int, str]:
    """The lesser is given work first: share of the limit that is held (millionths), attempts held, boot."""
    return (candidate.held * _SCALE // max(1, candidate.limit), candidate.held, candidate.boot)
