"""FencedState in memory. Made by MemoryBus.

Invariant: what a transaction wrote is seen by nobody before `committed` says so; a claim fences every earlier one of the
same transactional id and aborts what it had open.
"""

from collections.abc import Sequence

from headrace.bus.memory.broker import MemoryBroker
from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusError, CommitFailedError, FencedError


class MemoryFencedState:
    """As ports.FencedState."""

    def __init__(self, broker: MemoryBroker, place: Place, transactional_id: str) -> None:
        self._broker, self._place, self._id = broker, place, transactional_id
        self._epoch: int | None = None
        self._writing = False
        self._failed: BusError | None = None

    def claim(self) -> bool:
        """As FencedState.claim; takes effect at once."""
        if self._epoch is None:
            self._epoch = self._broker.claim(self._id)
        return True

    def begin(self, messages: Sequence[Message]) -> None:
        """As FencedState.begin. What went wrong is told by `committed`, as with Kafka."""
        epoch = self._claimed()
        if self._writing:
            raise BusError("a checkpoint is being written already")
        if any(message.place != self._place for message in messages):
            raise BusError(f"a checkpoint is written to {self._place.topic}/{self._place.partition} only")
        self._writing = True
        try:
            self._broker.begin(self._id, epoch, self._place, messages)
        except FencedError as error:
            self._failed = error
        except BusError as error:
            self._failed = CommitFailedError(str(error))

    def committed(self) -> bool:
        """As FencedState.committed."""
        epoch = self._claimed()
        if self._failed is not None:
            raise self._failed
        if not self._writing:
            raise BusError("no checkpoint is being written")
        self._broker.commit(self._id, epoch)
        self._writing = False
        return True

    def close(self) -> None:
        """As FencedState.close."""
        self._epoch = None

    def _claimed(self) -> int:
        if self._epoch is None:
            raise BusError(f"the transactional id {self._id} isn't claimed")
        return self._epoch
