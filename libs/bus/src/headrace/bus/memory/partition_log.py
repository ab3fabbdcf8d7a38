"""One partition's log in memory. Called by MemoryBroker alone, always under its lock.

Invariant: an offset is given once. A transaction's marker and an aborted record keep their offsets and are never handed
out; nothing at or after the first open transaction is (the last stable offset, as Kafka's read_committed sees it).
"""

from dataclasses import dataclass, field

from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import PositionGoneError


@dataclass(slots=True)
class PartitionLog:
    """Records by offset from `start`; None stands where a marker or an aborted record is."""

    place: Place
    start: int = 0
    records: list[Received | None] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return self.start + len(self.records)

    @property
    def stable_end(self) -> int:
        """Below it everything is decided: the first offset of an open transaction, else the end."""
        return min(self.open.values(), default=self.end)

    def append(self, message: Message, timestamp_ms: int) -> int:
        """Write one record; its offset."""
        offset = self.end
        self.records.append(
            Received(
                message.topic,
                message.partition,
                offset,
                timestamp_ms,
                message.value,
                message.headers,
                message.key,
            )
        )
        return offset

    def begin(self, transactional_id: str, messages: list[Message], timestamp_ms: int) -> None:
        """Write the records of a transaction that is open until `finish`."""
        self.open[transactional_id] = self.end
        for message in messages:
            self.append(message, timestamp_ms)

    def finish(self, transactional_id: str, *, commit: bool) -> None:
        """Decide the open transaction, if there is one, and write its marker."""
        first = self.open.pop(transactional_id, None)
        if first is None:
            return
        if not commit:
            self.records[first - self.start :] = [None] * (self.end - first)
        self.records.append(None)

    def past_markers(self, position: int) -> int:
        """The position of the next record that can be handed out, or the stable end."""
        while position < self.stable_end and self.records[position - self.start] is None:
            position += 1
        return position

    def read(self, position: int, limit: int) -> tuple[list[Received], int]:
        """Up to `limit` committed records from `position`, and the position after them."""
        self.check(position)
        found: list[Received] = []
        stable_end = self.stable_end
        while position < stable_end and len(found) < limit:
            record = self.records[position - self.start]
            if record is not None:
                found.append(record)
            position += 1
        return found, self.past_markers(position)

    def check(self, position: int) -> None:
        """Raises PositionGoneError when the log doesn't reach the position."""
        if not self.start <= position <= self.end:
            raise PositionGoneError(
                self.place,
                position,
                f"offset {position} of {self.place.topic}/{self.place.partition} is gone: "
                f"the log has {self.start} to {self.end}",
            )

    def at_time(self, timestamp_ms: int) -> int:
        """The first offset whose timestamp is at or after this; the stable end when there is none."""
        for record in self.records:
            if record is not None and record.timestamp_ms >= timestamp_ms:
                return min(record.offset, self.stable_end)
        return self.stable_end

    def trim(self, before: int) -> None:
        """Delete all below `before`, which is at most the end."""
        if before > self.start:
            del self.records[: before - self.start]
            self.start = before
