"""The simulated broker: logs, which of their partitions are available, fenced producers, and who is woken by what.

Invariant: a record is appended by an arriving parcel alone (world.wire); a transaction's records come all at once or never,
and its marker takes an offset of its own, as Kafka's does.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import FoundTopic, PositionGoneError
from headrace.contracts.topics import Topic
from tests.simulation.world.clockwork import WALL_MS, Clockwork


class Sleeper(Protocol):
    """Who may be woken."""

    def woken(self) -> None:
        """Something came for it."""
        ...


@dataclass(slots=True)
class Entry:
    """One offset of a log. `received` None: a transaction's marker. `by`: the process that wrote it."""

    received: Received | None
    at_ms: int
    by: str


@dataclass(slots=True)
class Log:
    """One partition. `start`: what stands before is trimmed; `out_until_ms`: till then nobody reads or writes it."""

    place: Place
    entries: list[Entry] = field(default_factory=list)
    start: int = 0
    out_until_ms: int = 0

    @property
    def end(self) -> int:
        """The offset after the last."""
        return len(self.entries)

    def read(self, position: int, limit: int) -> tuple[list[Received], int]:
        """Up to `limit` records and the position after them. Raises PositionGoneError."""
        if not self.start <= position <= self.end:
            raise PositionGoneError(self.place, position, f"the log has {self.start}..{self.end} only")
        found: list[Received] = []
        while position < len(self.entries) and len(found) < limit:
            received = self.entries[position].received
            if received is not None:
                found.append(received)
            position += 1
        return found, position

    def at_time(self, timestamp_ms: int) -> int:
        """The first offset whose timestamp is at or after this; the end when there is none."""
        for offset in range(self.start, self.end):
            received = self.entries[offset].received
            if received is not None and received.timestamp_ms >= timestamp_ms:
                return offset
        return self.end


class Broker:
    """All logs."""

    def __init__(self, clockwork: Clockwork) -> None:
        self._clockwork = clockwork
        self.logs: dict[Place, Log] = {}
        self.topics: dict[str, FoundTopic] = {}
        self.transactional: dict[str, int] = {}
        self._sleepers: defaultdict[Place, dict[Sleeper, None]] = defaultdict(dict)

    def create(self, topics: Iterable[Topic]) -> None:
        """These topics exist from now on."""
        for topic in topics:
            self.topics[topic.name] = FoundTopic(
                topic.name, f"id-of-{topic.name}", topic.partitions, topic.replication_factor, topic.configs()
            )
            for partition in range(topic.partitions):
                place = Place(topic.name, partition)
                self.logs[place] = Log(place)

    def is_out(self, place: Place) -> bool:
        """Whether the partition is unavailable now."""
        return self.logs[place].out_until_ms > self._clockwork.now_ms

    def append(self, message: Message, by: str) -> int:
        """Write one record; its offset."""
        log = self.logs[message.place]
        received = Received(
            message.topic, message.partition, log.end, WALL_MS + self._clockwork.now_ms, message.value,
            message.headers, message.key,
        )  # fmt: skip
        log.entries.append(Entry(received, self._clockwork.now_ms, by))
        for sleeper in self._sleepers[message.place]:
            sleeper.woken()
        return received.offset

    def mark(self, place: Place, by: str) -> None:
        """A transaction has ended here."""
        self.logs[place].entries.append(Entry(None, self._clockwork.now_ms, by))

    def claim(self, transactional_id: str) -> int:
        """Fence whoever used this id before; the new producer epoch."""
        self.transactional[transactional_id] = self.transactional.get(transactional_id, 0) + 1
        return self.transactional[transactional_id]

    def listen(self, sleeper: Sleeper, places: Iterable[Place]) -> None:
        """Wake this one for these partitions too."""
        for place in places:
            self._sleepers[place][sleeper] = None

    def forget(self, sleeper: Sleeper) -> None:
        """Wake this one no more."""
        for sleepers in self._sleepers.values():
            sleepers.pop(sleeper, None)

    def trim(self, place: Place, before: int) -> None:
        """Delete all records below this offset."""
        log = self.logs[place]
        if before > log.end:
            raise AssertionError(f"{place} is trimmed below {before}, but ends at {log.end}")
        log.start = max(log.start, before)
