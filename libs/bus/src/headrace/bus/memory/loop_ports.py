"""LoopProducer and LoopReader in memory, for plain loops in threads. Made by MemoryBus."""

from collections.abc import Mapping
from datetime import timedelta
from threading import Event
from time import monotonic

from headrace.bus.memory.broker import MemoryBroker
from headrace.bus.memory.cursors import Cursors
from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import BusError, Confirmation


class ThreadBell:
    """Wakes a reader that waits in a thread."""

    def __init__(self) -> None:
        self._event = Event()

    def ring(self) -> None:
        """As Bell.ring."""
        self._event.set()

    def wait(self, wait: timedelta) -> None:
        """Until rung since the last call, or for `wait`."""
        self._event.wait(max(0.0, wait.total_seconds()))
        self._event.clear()


def read_waiting(cursors: Cursors, bell: ThreadBell, limit: int, wait: timedelta) -> list[Received]:
    """Up to `limit` records, as soon as there is one; empty after `wait`."""
    deadline = monotonic() + wait.total_seconds()
    while not (found := cursors.collect(limit)):
        left = deadline - monotonic()
        if left <= 0:
            break
        bell.wait(timedelta(seconds=left))
    return found


class MemoryLoopProducer:
    """As ports.LoopProducer; what is sent is in the log before `send` returns."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._confirmations: list[Confirmation] = []
        self._closed = False

    def send(self, message: Message, token: object) -> None:
        """As LoopProducer.send. What the broker refuses is told by the confirmation, as Kafka does."""
        if self._closed:
            raise BusError("this producer is closed")
        try:
            offset = self._broker.append(message)
        except BusError as error:
            self._confirmations.append(Confirmation(token, message.place, None, error))
        else:
            self._confirmations.append(Confirmation(token, message.place, offset))

    def confirmations(self) -> list[Confirmation]:
        """As LoopProducer.confirmations."""
        found, self._confirmations = self._confirmations, []
        return found

    def flush(self, timeout: timedelta) -> int:  # noqa: ARG002
        """As LoopProducer.flush; nothing is ever left."""
        return 0

    def close(self, *, drop: bool = False) -> None:  # noqa: ARG002
        """As LoopProducer.close; there is nothing queued to drop."""
        self._closed = True


class MemoryLoopReader:
    """As ports.LoopReader."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._bell = ThreadBell()
        self._cursors = Cursors(broker, self._bell)

    def assign(self, positions: Mapping[Place, int]) -> None:
        """As LoopReader.assign. Raises BusError for a topic or partition that doesn't exist."""
        self._cursors.assign(positions)

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As LoopReader.read."""
        return read_waiting(self._cursors, self._bell, limit, wait)

    def pause(self, places: set[Place]) -> None:
        """As LoopReader.pause."""
        self._cursors.pause(places)

    def position(self, place: Place) -> int:
        """As LoopReader.position."""
        return self._cursors.position(place)

    def close(self) -> None:
        """As LoopReader.close."""
        self._cursors.close()
