"""Which worker gets the next attempt. Called by the core for each release.

Invariant: only a worker with room, and of those the least loaded in proportion to its limit.
"""

from collections.abc import Iterable
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


def least_loaded(candidates: Iterable[Candidate]) -> Candidate | None:
    """The least loaded with room; None when nobody has any."""
    return min((c for c in candidates if c.room > 0), key=load_of, default=None)
