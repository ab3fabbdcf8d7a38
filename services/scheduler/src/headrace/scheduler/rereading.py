"""Has runs of `requests` read again as the core says, without waiting for it. Used by owning.

Invariant: that a position is gone is believed when it has been told for as long as a broker may take itself for a leader: one
that was paused or cut off knows an old end, and calls gone what others hold. What only saves work is then told to be empty.
"""

from collections.abc import Iterable
from datetime import timedelta

from headrace.bus.messages import Place
from headrace.bus.ports import PositionGoneError, Rereads, Run, RunRead
from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.runtime.logging import get_logger

_BATCH = 500
_BELIEVED = timedelta(seconds=15)
_AGAIN = timedelta(milliseconds=250)


class Rereading:
    """All runs of one pool. `dispensable`: the topic of which nobody must have anything again."""

    def __init__(self, rereads: Rereads, dispensable: str) -> None:
        self._rereads, self._dispensable = rereads, dispensable
        self._gone_since_ms: dict[Place, int] = {}
        self._not_before_ms = 0

    def ask(self, runs: Iterable[Run]) -> None:
        """Read these again."""
        for run in runs:
            self._rereads.ask(run)

    def answers(self, now: Now) -> list[RunRead]:
        """Which have come. Raises PositionGoneError, BusError."""
        if now.boot_ms < self._not_before_ms:
            return []
        try:
            found = self._rereads.answers(_BATCH)
        except PositionGoneError as error:
            return self._not_yet(error, now)
        for each in found:
            self._gone_since_ms.pop(each.run.place, None)
        return found

    def _not_yet(self, error: PositionGoneError, now: Now) -> list[RunRead]:
        since_ms = self._gone_since_ms.get(error.place)
        if since_ms is None:
            self._gone_since_ms[error.place] = now.boot_ms
            get_logger("scheduler").warning(
                "a payload is said to be gone from its log, asking again", reason=str(error)
            )
        elif now.boot_ms - since_ms >= ms(_BELIEVED):
            if error.place.topic != self._dispensable:
                raise error
            del self._gone_since_ms[error.place]
            return [RunRead(run, ()) for run in self._rereads.give_up(error.place)]
        self._not_before_ms = now.boot_ms + ms(_AGAIN)
        return []
