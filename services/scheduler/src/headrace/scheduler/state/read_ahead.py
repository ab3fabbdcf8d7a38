"""What a standby has read of one request partition before the pool is its own. Used by following.

Pure. Invariant: all that is unfinished from the finished prefix up to `next_offset` is here, in order; the newest record
read is kept whatever became of it, so that whoever takes these in knows how far they reach.
"""

from dataclasses import dataclass, field

from headrace.bus.messages import Received
from headrace.scheduler.decisions.when_to_pause import OVERHEAD, Window, paused_since
from headrace.scheduler.state.offsets import FinishedOffsets


@dataclass(slots=True)
class ReadAhead:
    """One partition. `size` in bytes; `paused_ms`: since when (ms since boot) it isn't read."""

    next_offset: int
    finished: FinishedOffsets = field(default_factory=FinishedOffsets)
    records: list[Received] = field(default_factory=list)
    size: int = 0
    paused_ms: int | None = None
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

    @property
    def paused(self) -> bool:
        """Whether it isn't read at present."""
        return self.paused_ms is not None

    def decide(self, window: Window, boot_ms: int, resume_after_ms: int) -> None:
        """Pause or read on; a pause lasts `resume_after_ms` at least."""
        self.paused_ms = paused_since(
            self.paused_ms,
            records=len(self.records),
            size=self.size,
            window=window,
            boot_ms=boot_ms,
            resume_after_ms=resume_after_ms,
        )

    def all(self) -> list[Received]:
        """What is to be taken in, up to `next_offset`."""
        newest = self._newest
        tail = [] if newest is None or (self.records and self.records[-1] is newest) else [newest]
        return [*self.records, *tail]


def _size_of(received: Received) -> int:
    return len(received.value or b"") + OVERHEAD
