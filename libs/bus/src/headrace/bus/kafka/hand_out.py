"""Our own record of where each partition stands and which are paused. Called by both readers on librdkafka.

Pure. Invariant: a record is handed out once, in order, and never while its partition is paused; one that came too early is
read again, because a partition is always resumed from the position kept here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.bus.messages import Place, Received


@dataclass
class HandOut:
    """`positions`: the next offset of each assigned partition. `paused`: what the caller wants, assigned or not.

    `ahead`: where the client has gone further than we have, so that its own position says nothing.
    """

    positions: dict[Place, int] = field(default_factory=dict)
    paused: frozenset[Place] = frozenset()
    ahead: set[Place] = field(default_factory=set)

    def assign(self, positions: Mapping[Place, int]) -> None:
        """These partitions and no others from now on."""
        self.positions = dict(positions)
        self.ahead.clear()

    def forget(self, places: Iterable[Place]) -> None:
        """These partitions are no longer read."""
        for place in places:
            self.positions.pop(place, None)
            self.ahead.discard(place)

    def move(self, positions: Mapping[Place, int]) -> None:
        """Read these on from elsewhere."""
        self.positions.update(positions)
        self.ahead.update(positions)

    def admits(self, record: Received) -> bool:
        """Whether to hand it out now; if so it counts as read."""
        place = record.place
        position = self.positions.get(place)
        if position is None or record.offset < position:
            return False
        if place in self.paused:
            self.ahead.add(place)
            return False
        self.positions[place] = record.offset + 1
        self.ahead.discard(place)
        return True

    def pause(self, places: Iterable[Place]) -> tuple[list[Place], dict[Place, int]]:
        """The new pause set; which assigned partitions to pause, and which to resume from where."""
        before, self.paused = self.paused, frozenset(places)
        to_pause = [place for place in self.paused - before if place in self.positions]
        to_resume = {
            place: self.positions[place] for place in before - self.paused if place in self.positions
        }
        return to_pause, to_resume

    def paused_now(self) -> list[Place]:
        """The assigned partitions that are paused: to be told to the client after every assignment."""
        return [place for place in self.positions if place in self.paused]
