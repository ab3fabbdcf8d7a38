"""GroupReader in memory. Made by MemoryBus; callbacks run in the member's own thread, inside `read` or `close`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from time import monotonic

from headrace.bus.memory.broker import MemoryBroker
from headrace.bus.memory.cursors import Cursors
from headrace.bus.memory.groups import MemoryGroup
from headrace.bus.memory.loop_ports import ThreadBell
from headrace.bus.messages import Place, Received
from headrace.bus.ports import BusError

Assigned = Callable[[list[Place]], Mapping[Place, int]]
Revoked = Callable[[list[Place]], None]


class MemoryGroupReader:
    """As ports.GroupReader."""

    def __init__(self, broker: MemoryBroker, group: MemoryGroup, name: str) -> None:
        self._broker, self._group, self._name = broker, group, name
        self._bell = ThreadBell()
        self._cursors = Cursors(broker, self._bell)
        self._member: str | None = None
        self._generation = -1
        self._held: list[Place] = []
        self._callbacks: tuple[Assigned, Revoked] | None = None

    def subscribe(self, topics: Sequence[str], *, assigned: Assigned, revoked: Revoked) -> None:
        """As GroupReader.subscribe. Raises BusError for a topic that doesn't exist."""
        partitions = {}
        for topic in topics:
            if (found := self._broker.found(topic)) is None:
                raise BusError(f"there is no topic {topic}; run `headrace topics apply`")
            partitions[topic] = found.partitions
        self._callbacks = assigned, revoked
        self._member = self._group.join(self._name, partitions, self._bell)

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As GroupReader.read. What a callback raises is raised here; after that, only close."""
        deadline = monotonic() + wait.total_seconds()
        while True:
            self._follow_group()
            found = self._cursors.collect(limit)
            left = deadline - monotonic()
            if found or left <= 0:
                return found
            self._bell.wait(timedelta(seconds=left))

    def pause(self, places: set[Place]) -> None:
        """As GroupReader.pause."""
        self._cursors.pause(places)

    def seek(self, positions: Mapping[Place, int]) -> None:
        """As GroupReader.seek."""
        self._cursors.seek(positions)

    def close(self) -> None:
        """As GroupReader.close."""
        if self._member is not None:
            self._let_go()
            self._group.leave(self._member)
            self._member = None

    def _follow_group(self) -> None:
        if self._member is None or self._callbacks is None:
            raise BusError("this reader hasn't subscribed, or is closed")
        if self._generation == self._group.generation():
            return
        self._let_go()
        self._group.give_back(self._member)
        taken = self._group.take(self._member)
        if taken is not None:
            self._generation, self._held = taken
            self._cursors.assign(self._callbacks[0](list(self._held)) if self._held else {})

    def _let_go(self) -> None:
        held, self._held = self._held, []
        self._cursors.assign({})
        if held and self._callbacks is not None:
            self._callbacks[1](held)
