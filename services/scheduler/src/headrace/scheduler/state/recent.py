"""Ids finished in the last 15 minutes, against duplicates, and attempts settled in that time, against settling twice.

Kept in core.pool_state: core.finishing and core.attempt_log add, core.checkpointing writes; state.rerouted keeps the same of
what went to other pools, for longer. Invariant: an id is kept for 15 minutes at least, in pieces by minute.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

KEPT_MINUTES, KEPT_AT_MOST_MINUTES = 15, 120
"""The latter for what earlier owners have left: the clock that dated it may be wrong by an hour."""
PIECE = 500
"""Ids in one checkpoint record: only the last piece of a minute is written again when it grows."""

T = TypeVar("T", bound=Hashable)


class ByMinute(Generic[T]):
    """A set that forgets by the minute, after so many of them."""

    def __init__(self, kept_minutes: int = KEPT_MINUTES) -> None:
        self._kept, self._kept_at_most = kept_minutes, kept_minutes - KEPT_MINUTES + KEPT_AT_MOST_MINUTES
        self._members: set[T] = set()
        self.pieces: dict[tuple[int, int], list[T]] = {}
        """(minute of Unix time, piece) -> members in order of arrival."""
        self._last: dict[int, int] = {}

    def __contains__(self, member: T) -> bool:
        return member in self._members

    def add(self, member: T, minute: int) -> tuple[int, int] | None:
        """Remember it; the piece it went into, or None when it is known already."""
        if member in self._members:
            return None
        piece = (minute, self._last.get(minute, 0))
        members = self.pieces.get(piece)
        if members is None or len(members) >= PIECE:
            piece = (minute, 0 if members is None else piece[1] + 1)
            self._last[minute] = piece[1]
            members = self.pieces[piece] = []
        members.append(member)
        self._members.add(member)
        return piece

    def __len__(self) -> int:
        return len(self._members)

    def forget_before(self, minute: int, *, since: int) -> list[tuple[int, int]]:
        """Drop all that is older at this minute than it is kept; the pieces that went."""
        gone = self.too_old(minute, since=since)
        self.forget(gone)
        return gone

    def too_old(self, minute: int, *, since: int) -> list[tuple[int, int]]:
        """The pieces that are older at this minute than they are kept.

        `since`: the minute in which this owner came; what it found is as old as that to it, but for what is very old.
        """
        oldest, found = minute - self._kept, minute - self._kept_at_most
        return [piece for piece in self.pieces if max(piece[0], since) < oldest or piece[0] < found]

    def forget(self, gone: Iterable[tuple[int, int]]) -> None:
        """Drop these pieces."""
        for piece in gone:
            self._members.difference_update(self.pieces.pop(piece))
            self._last.pop(piece[0], None)
