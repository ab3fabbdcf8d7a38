"""AsyncProducer and AsyncReader in memory. Made by MemoryBus; a reader belongs to the event loop that started it.

A writer in another thread or loop wakes a reader by call_soon_threadsafe.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from headrace.bus.memory.broker import MemoryBroker
from headrace.bus.memory.cursors import Cursors
from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import BusError


class LoopBell:
    """Wakes a reader that waits in an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()

    def ring(self) -> None:
        """As Bell.ring. A loop that is closed has nobody left to wake."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, seconds: float) -> None:
        """Until rung since the last call, or for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()


class MemoryAsyncProducer:
    """As ports.AsyncProducer."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._started = False

    async def start(self) -> None:
        """As AsyncProducer.start."""
        self._started = True

    async def send(self, message: Message) -> int:
        """As AsyncProducer.send."""
        if not self._started:
            raise BusError("this producer isn't started")
        offset = self._broker.append(message)
        # Gives way once, as a real send does, so that a writer in a tight loop doesn't starve its readers.
        await asyncio.sleep(0)
        return offset

    async def stop(self) -> None:
        """As AsyncProducer.stop."""
        self._started = False


class MemoryAsyncReader:
    """As ports.AsyncReader."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._bell: LoopBell | None = None
        self._cursors: Cursors | None = None

    async def start(self) -> None:
        """As AsyncReader.start."""
        if self._cursors is not None:
            return
        self._bell = LoopBell(asyncio.get_running_loop())
        self._cursors = Cursors(self._broker, self._bell)

    async def assign(self, positions: Mapping[Place, int]) -> None:
        """As AsyncReader.assign. Raises BusError for a topic or partition that doesn't exist."""
        self._started()[0].assign(positions)

    async def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As AsyncReader.read."""
        cursors, bell = self._started()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait.total_seconds()
        while not (found := cursors.collect(limit)):
            left = deadline - loop.time()
            if left <= 0:
                break
            await bell.wait(left)
        await asyncio.sleep(0)
        return found

    async def position(self, place: Place) -> int:
        """As AsyncReader.position."""
        return self._started()[0].position(place)

    async def ends(self, places: Sequence[Place]) -> dict[Place, int]:
        """As AsyncReader.ends."""
        return self._broker.ends(places, committed=True)

    async def at_time(self, place: Place, timestamp_ms: int) -> int:
        """As AsyncReader.at_time."""
        return self._broker.at_time(place, timestamp_ms)

    async def stop(self) -> None:
        """As AsyncReader.stop."""
        if self._cursors is not None:
            self._cursors.close()
        self._cursors = self._bell = None

    def _started(self) -> tuple[Cursors, LoopBell]:
        if self._cursors is None or self._bell is None:
            raise BusError("this reader isn't started")
        return self._cursors, self._bell
