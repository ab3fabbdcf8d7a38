"""Which partitions are ours, where each stands in SQL, and what was read of them but isn't committed. Held by the service.

Invariant: what is held of a partition begins at its SQL position, is in log order without gaps, and is dropped whole when
the partition is lost or its position is in doubt.
"""

from collections.abc import Iterable, Mapping

from headrace.bus.messages import Place, Received


class Intake:
    """The member's share of `results`. Only the loop's own thread touches it."""

    def __init__(self) -> None:
        self._stands: dict[Place, int | None] = {}
        self._reads: dict[Place, int | None] = {}
        self._believed_gaps: dict[Place, int] = {}
        self.in_doubt: set[Place] = set()
        self.held: list[Received] = []

    @property
    def places(self) -> set[Place]:
        """All that is assigned, in doubt or not."""
        return {*self._stands, *self.in_doubt}

    def stand(self, place: Place) -> int | None:
        """The position that SQL has, as far as we know; None: no row yet."""
        return self._stands[place]

    def begin(self, places: Iterable[Place], positions: Mapping[Place, int]) -> None:
        """These are read from their SQL position; those without one from the log's start."""
        for place in places:
            self.lose([place])
            self._stands[place] = self._reads[place] = positions.get(place)

    def doubt(self, places: Iterable[Place]) -> None:
        """Their SQL position must be asked for before anything more is read or committed of them."""
        doubted = set(places)
        self.lose(doubted)
        self.in_doubt |= doubted

    def lose(self, places: Iterable[Place]) -> None:
        """These are no longer ours, with all that was read of them."""
        lost = set(places)
        self.in_doubt -= lost
        for place in lost:
            self._stands.pop(place, None)
            self._reads.pop(place, None)
        self.held = [record for record in self.held if record.place not in lost]

    def take(self, records: Iterable[Received]) -> None:
        """Holds what was read, but for what isn't ours, was read before, or leaves a gap that isn't believed yet."""
        for record in records:
            if record.place not in self._reads:
                continue
            reads = self._reads[record.place]
            if reads is not None and record.offset < reads:
                continue
            if reads is not None and record.offset > reads and not self._believes(record):
                self.doubt([record.place])
                continue
            self.held.append(record)
            self._reads[record.place] = record.offset + 1

    def committed(self, positions: Mapping[Place, int]) -> None:
        """What is held was committed; SQL stands here now."""
        self._stands.update(positions)
        self.held = []

    def _believes(self, record: Received) -> bool:
        """A gap may be what a client skipped after a rebalance; one that is there on a second reading is the log's own."""
        believed = self._believed_gaps.get(record.place) == record.offset
        self._believed_gaps[record.place] = record.offset
        return believed
