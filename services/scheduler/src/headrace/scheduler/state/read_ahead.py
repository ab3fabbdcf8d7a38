"""What a standby has read of one request partition before the pool is its own. Used by following.

Pure. Invariant: all that is unfinished from the finished prefix up to `next_offset` is here, in order; the newest record
read is kept whatever became of it, so that whoever takes these in knows how far they reach.
"""

from dataclasses import dataclass, field

from headrace.bus.messages import Received
from headrace.scheduler.decisions.when_to_pause import Window, should_be_paused
from headrace.scheduler.state.offsets import FinishedOffsets

_OVERHEAD = 1024
"""Bytes that a record takes beside its payload, about."""


@dataclass(slots=True)
class ReadAhead:
    """One partition. `size` in bytes; `paused_ms` (since boot): when it was paused last."""

    next_offset: int
    finished: FinishedOffsets = field(default_factory=FinishedOffsets)
    records: list[Received] = field(default_factory=list)
    size: int = 0
    paused: bool = False
    paused_ms: int = -(10**12)
    _newest: Received | None = None

    def read(self, received: Received) -> None:
        """One more record."""
        if received.offset < self.next_offset:
            return
        self.next_offset, self._newest = received.offset + 1, received
        if received.offset not in self.finished:
            self.records.append(received)
            self.size += _size_of(received)

    def know(self, finished: FinishedOffsets) -> None:
        """A newer checkpoint says that so much is finished."""
        self.finished = finished
        self.records = [record for record in self.records if record.offset not in finished]
        self.size = sum(map(_size_of, self.records))

    def decide(self, window: Window, boot_ms: int, resume_after_ms: int) -> None:
        """Pause or read on; a pause lasts `resume_after_ms` at least."""
        wanted = should_be_paused(
            paused=self.paused, records=len(self.records), size=self.size, window=window
        )
        if wanted and not self.paused:
            self.paused, self.paused_ms = True, boot_ms
        elif not wanted and self.paused and boot_ms - self.paused_ms >= resume_after_ms:
            self.paused = False

    def all(self) -> list[Received]:
        """What is to be taken in, up to `next_offset`."""
        newest = self._newest
        tail = [] if newest is None or (self.records and self.records[-1] is newest) else [newest]
        return [*self.records, *tail]


def _size_of(received: Received) -> int:
    return len(received.value or b"") + _OVERHEAD
