"""How far a log may be trimmed, and where it begins. Used by the scheduler's and result-delivery's trimming alone.

Pure. Invariant: what is due lies `history` records before what is needed, and is worth the asking.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

P = TypeVar("P")

_WORTH = 10
"""One part in so many of the history: fewer records aren't worth a question to the brokers."""


class Trimmed(Generic[P]):
    """Where each log begins, as far as we know: at 0 until its broker has told otherwise. `P` names a partition."""

    def __init__(self, history: int) -> None:
        """`history`: how many records stay although nobody needs them."""
        self._history, self._worth = history, max(1, history // _WORTH)
        self._begins: dict[P, int] = {}

    def due(self, needed: Mapping[P, int]) -> dict[P, int]:
        """Below which offset each log may be deleted now. `needed`: the first offset that somebody still needs."""
        before = {place: first - self._history for place, first in needed.items()}
        return {
            place: offset
            for place, offset in before.items()
            if offset - self._begins.get(place, 0) >= self._worth
        }

    def done(self, begins: Mapping[P, int]) -> int:
        """They begin here now; how many records that were, as far as was known where they began before."""
        gone = sum(max(0, first - self._begins.get(place, 0)) for place, first in begins.items())
        self._begins.update(begins)
        return gone
