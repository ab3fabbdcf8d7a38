"""Which live chunks a reader is shown. Called for each chunk of a request that somebody follows.

Readers follow the highest attempt, in order, without gaps; one that goes on from what another had said is followed on from
there. Invariant: what is shown is always the beginning of one attempt's text; what can't be shown any more is left to the
stored text.
"""

from enum import StrEnum

from headrace.contracts.ids import AttemptId
from headrace.contracts.replies import Chunk


class Shown(StrEnum):
    """What to do with a chunk: relay it, skip it, or forget what was shown and relay it."""

    RELAY = "relay"
    SKIP = "skip"
    RESTART = "restart"


class ChunkOrder:
    """What was shown so far of one request. `intact`: nothing of `attempt` is missing up to now."""

    def __init__(self) -> None:
        self.attempt: AttemptId | None = None
        self.intact = True
        self._next = self._characters = 0
        self._shown = False
        """Whether anything was shown, of whichever attempt: one in between may have shown nothing."""

    def resume(self, attempt: AttemptId, number: int, characters: int) -> None:
        """Go on behind a chunk that the reader has had already, and so many characters."""
        self.attempt, self._next, self._shown = attempt, number + 1, True
        self._characters = characters

    def take(self, chunk: Chunk) -> Shown:
        """One more chunk, in the order of the log."""
        if self.attempt is None:
            self.attempt = chunk.attempt
        if chunk.attempt < self.attempt or (chunk.attempt == self.attempt and chunk.number < self._next):
            return Shown.SKIP
        if chunk.attempt > self.attempt:
            return self._newer(chunk)
        return self._in_order(chunk)

    def is_whole(self, final: AttemptId) -> bool:
        """Whether what was shown is the beginning of what this attempt said."""
        return self.intact and (self.attempt is None or self.attempt == final)

    def _newer(self, chunk: Chunk) -> Shown:
        shown_before = self._shown
        goes_on = self.intact and (chunk.after, chunk.since) == (self.attempt, self._characters)
        self.attempt, self._next, self.intact = chunk.attempt, int(goes_on), True
        verdict = self._in_order(chunk)
        if goes_on:
            return verdict
        return Shown.RESTART if shown_before and verdict is Shown.RELAY else verdict

    def _in_order(self, chunk: Chunk) -> Shown:
        if chunk.number > self._next:
            self.intact = False
        if not self.intact:
            return Shown.SKIP
        self._next, self._shown, self._characters = chunk.number + 1, True, chunk.characters
        return Shown.RELAY
