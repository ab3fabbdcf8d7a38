"""The broker in memory: topics, their logs, producers' epochs, and who is to be woken. Called by every memory port.

Invariant: one lock around everything, held for no longer than a look or a write; a bell is rung for each partition that grew.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Protocol

from headrace.bus.memory.partition_log import PartitionLog
from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import END, START, BusError, FencedError, FoundTopic, TooLargeError
from headrace.contracts.topics import Topic

RECORD_OVERHEAD = 70
"""About what Kafka adds to a lone record: the batch's header and the record's own lengths."""
DEFAULT_MAX_BYTES = 1_048_588


class Bell(Protocol):
    """Wakes one reader, from any thread."""

    def ring(self) -> None:
        """There is something to read. Never blocks."""
        ...


def size_of(message: Message) -> int:
    """About the bytes that the message takes in the log."""
    headers = sum(len(name.encode()) + len(value) for name, value in message.headers)
    return RECORD_OVERHEAD + len(message.key or b"") + len(message.value or b"") + headers


class MemoryBroker:
    """Every method may be called from any thread. Raises BusError for a topic or partition that doesn't exist."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._lock = Lock()
        self._topics: dict[str, FoundTopic] = {}
        self._logs: dict[Place, PartitionLog] = {}
        self._bells: defaultdict[Place, set[Bell]] = defaultdict(set)
        self._epochs: dict[str, int] = {}
        self._open: dict[str, PartitionLog] = {}

    def create(self, topic: Topic) -> None:
        """Create a topic; one that exists stays as it is."""
        with self._lock:
            if topic.name in self._topics:
                return
            found = FoundTopic(
                topic.name, uuid.uuid4().hex, topic.partitions, topic.replication_factor, topic.configs()
            )
            self._topics[topic.name] = found
            self._open_logs(found)

    def _open_logs(self, topic: FoundTopic) -> None:
        for number in range(topic.partitions):
            place = Place(topic.name, number)
            self._logs.setdefault(place, PartitionLog(place))

    def found(self, name: str) -> FoundTopic | None:
        """The topic, if it exists."""
        with self._lock:
            return self._topics.get(name)

    def change(self, name: str, *, partitions: int = 0, configs: Mapping[str, str] | None = None) -> None:
        """Grow a topic, or change some of its settings."""
        with self._lock:
            topic = self._topic(name)
            if partitions and partitions <= topic.partitions:
                raise BusError(
                    f"the topic {name} has {topic.partitions} partitions and can't get {partitions}"
                )
            changed = replace(
                topic,
                partitions=partitions or topic.partitions,
                configs={**topic.configs, **(configs or {})},
            )
            self._topics[name] = changed
            self._open_logs(changed)

    def append(self, message: Message) -> int:
        """Write one record; its offset. Raises TooLargeError."""
        with self._lock:
            log = self._log(message.place)
            self._check_size(message)
            offset = log.append(message, self._wall_ms())
            self._ring(message.place)
            return offset

    def read(self, place: Place, position: int, limit: int) -> tuple[list[Received], int]:
        """Up to `limit` committed records and the position after them. Raises PositionGoneError."""
        with self._lock:
            return self._log(place).read(position, limit)

    def resolve(self, place: Place, position: int) -> int:
        """START and END as offsets; others as they are."""
        with self._lock:
            log = self._log(place)
            return {START: log.start, END: log.stable_end}.get(position, position)

    def position(self, place: Place, position: int) -> int:
        """The position without the markers that stand at it; as it is when the log doesn't reach it."""
        with self._lock:
            log = self._log(place)
            inside = log.start <= position <= log.end
            return log.past_markers(position) if inside else position

    def ends(self, places: Iterable[Place], *, committed: bool) -> dict[Place, int]:
        """The offset after the last record, or after the last committed one."""
        with self._lock:
            logs = {place: self._log(place) for place in places}
            return {place: log.stable_end if committed else log.end for place, log in logs.items()}

    def at_time(self, place: Place, timestamp_ms: int) -> int:
        """The first offset whose timestamp is at or after this; the end when there is none."""
        with self._lock:
            return self._log(place).at_time(timestamp_ms)

    def trim(self, place: Place, before: int) -> int:
        """Delete all records below this offset; where the log begins now."""
        with self._lock:
            log = self._log(place)
            if before > log.end:
                raise BusError(
                    f"can't trim {place.topic}/{place.partition} below {before}: it ends at {log.end}"
                )
            log.trim(before)
            return log.start

    def listen(self, bell: Bell, places: Iterable[Place]) -> None:
        """Ring this bell for these partitions and for no others."""
        with self._lock:
            for bells in self._bells.values():
                bells.discard(bell)
            for place in places:
                self._log(place)
                self._bells[place].add(bell)

    def claim(self, transactional_id: str) -> int:
        """A new epoch of this id: older ones are fenced, what they had open is aborted."""
        with self._lock:
            epoch = self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
            self._finish(transactional_id, commit=False)
            return epoch

    def begin(self, transactional_id: str, epoch: int, place: Place, messages: Sequence[Message]) -> None:
        """Write a transaction's records, open. Raises FencedError, TooLargeError."""
        with self._lock:
            self._check_epoch(transactional_id, epoch)
            log = self._log(place)
            for message in messages:
                self._check_size(message)
            log.begin(transactional_id, list(messages), self._wall_ms())
            self._open[transactional_id] = log

    def commit(self, transactional_id: str, epoch: int) -> None:
        """Commit what is open. Raises FencedError."""
        with self._lock:
            self._check_epoch(transactional_id, epoch)
            self._finish(transactional_id, commit=True)

    def _finish(self, transactional_id: str, *, commit: bool) -> None:
        log = self._open.pop(transactional_id, None)
        if log is not None:
            log.finish(transactional_id, commit=commit)
            self._ring(log.place)

    def _check_epoch(self, transactional_id: str, epoch: int) -> None:
        if self._epochs.get(transactional_id) != epoch:
            raise FencedError(f"another owner has claimed the transactional id {transactional_id}")

    def _check_size(self, message: Message) -> None:
        room = int(self._topic(message.topic).configs.get("max.message.bytes", DEFAULT_MAX_BYTES))
        if (size := size_of(message)) > room:
            raise TooLargeError(f"a message of {size} bytes is larger than {message.topic} takes: {room}")

    def _topic(self, name: str) -> FoundTopic:
        if (topic := self._topics.get(name)) is None:
            raise BusError(f"there is no topic {name}; run `headrace topics apply`")
        return topic

    def _log(self, place: Place) -> PartitionLog:
        if (log := self._logs.get(place)) is None:
            topic = self._topic(place.topic)
            raise BusError(f"{place.topic} has no partition {place.partition}: it has {topic.partitions}")
        return log

    def _ring(self, place: Place) -> None:
        for bell in self._bells[place]:
            bell.ring()
