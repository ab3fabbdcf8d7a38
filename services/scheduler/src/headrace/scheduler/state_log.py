"""Follows a pool's `state` log: who owns it, and the newest record of each key. Used by watching, and by claiming after it.

Invariant: nothing is judged here; what can't be decoded is kept as it is, and whoever claims the pool says so.
"""

from collections.abc import Iterator
from datetime import timedelta

from headrace.bus.messages import Received
from headrace.bus.ports import START, LoopReader
from headrace.contracts.checkpoints import Finished, Ownership
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.setting import Setting

_BATCH = 2_000


class StateLog:
    """`last`: who owned the pool last, as far as it was read; `last_ms`: when that was written, Unix ms by the broker."""

    def __init__(self, setting: Setting, reader: LoopReader) -> None:
        self.place = setting.place(TopicKind.STATE)
        self._reader = reader
        self._newest: dict[bytes, Received] = {}
        self._closed = False
        self.last: Ownership | None = None
        self.last_ms = 0

    def start(self) -> None:
        """Read from the beginning. Raises BusError."""
        self._reader.assign({self.place: START})

    def read(self, wait: timedelta) -> list[Ownership | Finished]:
        """Read on, waiting no longer than `wait`; what came of what a standby wants to know. Raises BusError."""
        found = self._reader.read(_BATCH, wait)
        return [record for received in found for record in self._take(received)]

    @property
    def position(self) -> int:
        """How far it was read."""
        return self._reader.position(self.place)

    def newest(self) -> list[Received]:
        """The newest record of each key, as compaction leaves them."""
        return list(self._newest.values())

    def finished(self) -> Iterator[Finished]:
        """The checkpoints of request partitions."""
        for received in self._newest.values():
            record = _known(received)
            if isinstance(record, Finished):
                yield record

    def close(self) -> None:
        """Read no more, and forget what was read. May be called again."""
        self._newest.clear()
        if not self._closed:
            self._closed = True
            self._reader.close()

    def _take(self, received: Received) -> Iterator[Ownership | Finished]:
        if received.key is not None:
            self._newest.pop(received.key, None)
            if received.value is not None:
                self._newest[received.key] = received
        record = _known(received)
        if isinstance(record, Ownership):
            self.last, self.last_ms = record, received.timestamp_ms
        if record is not None:
            yield record


def _known(received: Received) -> Ownership | Finished | None:
    if received.key is None or not received.key.startswith((b"ownership", b"finished/")):
        return None
    try:
        record = decode(TopicKind.STATE, received.header)
    except UndecodableError:
        return None
    return record if isinstance(record, Ownership | Finished) else None
