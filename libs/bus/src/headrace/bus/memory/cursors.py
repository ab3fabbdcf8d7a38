"""The positions of one reader in memory, and its pause set. Called by the three memory readers; knows nothing of waiting.

Invariant: a position moves only over what was handed out; a paused partition is never looked at.
"""

from collections.abc import Iterable, Mapping

from headrace.bus.memory.broker import Bell, MemoryBroker
from headrace.bus.messages import Place, Received
from headrace.bus.ports import BusError, PositionGoneError


class Cursors:
    """Where a reader stands in each of its partitions."""

    def __init__(self, broker: MemoryBroker, bell: Bell) -> None:
        self._broker = broker
        self._bell = bell
        self._positions: dict[Place, int] = {}
        self._paused: frozenset[Place] = frozenset()

    def assign(self, positions: Mapping[Place, int]) -> None:
        """Read exactly these. START and END are resolved now."""
        resolved = {place: self._broker.resolve(place, position) for place, position in positions.items()}
        self._broker.listen(self._bell, resolved)
        self._positions = resolved

    def seek(self, positions: Mapping[Place, int]) -> None:
        """Move some. Raises BusError for one that isn't read."""
        for place in positions:
            self._check(place)
        for place, position in positions.items():
            self._positions[place] = self._broker.resolve(place, position)

    def pause(self, places: Iterable[Place]) -> None:
        """The pause set is exactly this from now on."""
        self._paused = frozenset(places)

    def collect(self, limit: int) -> list[Received]:
        """Up to `limit` records that are there. The next call begins with another partition, so that none starves."""
        found: list[Received] = []
        for place in list(self._positions):
            if place in self._paused:
                continue
            if len(found) >= limit:
                break
            try:
                records, position = self._broker.read(place, self._positions[place], limit - len(found))
            except PositionGoneError:
                if found:
                    break  # what was found is handed out first; the next call raises
                raise
            if records:
                del self._positions[place]
            self._positions[place] = position
            found += records
        return found

    def position(self, place: Place) -> int:
        """The next offset that will be looked at. Raises BusError for one that isn't read."""
        self._check(place)
        return self._broker.position(place, self._positions[place])

    def close(self) -> None:
        """Listen to nothing."""
        self.assign({})

    def _check(self, place: Place) -> None:
        if place not in self._positions:
            raise BusError(f"{place.topic}/{place.partition} isn't assigned to this reader")
