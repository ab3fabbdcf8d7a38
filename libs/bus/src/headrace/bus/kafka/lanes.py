"""The sends of an asyncio producer that wait for their turn, one lane for each partition. Called by KafkaAsyncProducer.

Invariant: a lane has one batch on the way at a time, so that order is kept; what gathers meanwhile goes together as the
next batch. A send that ran out of time before it was handed over is never handed over.
"""

import asyncio
from collections import deque
from datetime import timedelta

from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusError, BusUnavailableError, DeliveryUnknownError

BATCH_BYTES = 512 * 1024
"""A batch is closed before the message that would make it larger; a larger message goes alone."""
_RECORD_OVERHEAD = 32


def size_of(message: Message) -> int:
    """About the bytes that the message takes in the log."""
    size = _RECORD_OVERHEAD + len(message.key or b"") + len(message.value or b"")
    for name, value in message.headers:
        size += len(name) + len(value) + 8
    return size


class Pending:
    """One send. `deadline` is in the loop's time, seconds. `handed_over`: from here on it may be in the log. `given_up`: its
    caller was told that it isn't written, so it mustn't be handed over.
    """

    __slots__ = ("deadline", "future", "given_up", "handed_over", "message", "size")

    def __init__(self, message: Message, deadline: float, future: asyncio.Future[int]) -> None:
        self.message, self.size = message, size_of(message)
        self.deadline, self.future = deadline, future
        self.handed_over, self.given_up = False, False

    def succeed(self, offset: int) -> None:
        """Confirmed. A caller that was cancelled isn't told."""
        if not self.future.done():
            self.future.set_result(offset)

    def fail(self, error: BusError) -> None:
        """Refused, or not known."""
        if not self.future.done():
            self.future.set_exception(error)


class Lane:
    """What waits for one partition, what is on the way to it, and the task that empties it while there is something."""

    def __init__(self, place: Place, loop: asyncio.AbstractEventLoop) -> None:
        self.place = place
        self.task: asyncio.Task[None] | None = None
        self._loop = loop
        self._waiting: deque[Pending] = deque()
        self._under_way: list[Pending] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, message: Message, timeout: timedelta) -> asyncio.Future[int]:
        """Put a message at the end; what becomes of it."""
        pending = Pending(message, self._loop.time() + timeout.total_seconds(), self._loop.create_future())
        self._waiting.append(pending)
        # All sends get the same time, so the lane needs one timer, for the eldest; a timer for each costs as much as a send.
        if self._timer is None:
            self._timer = self._loop.call_at(pending.deadline, self._expire)
        return pending.future

    def take(self) -> list[Pending]:
        """The next batch; at least one message unless the lane is empty."""
        batch: list[Pending] = []
        size = 0
        while self._waiting and (not batch or size + self._waiting[0].size <= BATCH_BYTES):
            following = self._waiting.popleft()
            size += following.size
            batch.append(following)
        self._under_way = batch
        return batch

    def _expire(self) -> None:
        now, where = self._loop.time(), f"{self.place.topic}/{self.place.partition}"
        for pending in self._under_way:
            if pending.deadline <= now and not pending.future.done():
                self._run_out(pending, where)
        while self._waiting and self._waiting[0].deadline <= now:
            stuck = BusUnavailableError(f"nothing was written to {where}: earlier writes are stuck")
            self._waiting.popleft().fail(stuck)
        left = [one.deadline for one in (*self._under_way, *self._waiting) if one.deadline > now]
        self._timer = self._loop.call_at(min(left), self._expire) if left else None

    def _run_out(self, pending: Pending, where: str) -> None:
        if pending.handed_over:
            pending.fail(DeliveryUnknownError(f"a write to {where} wasn't confirmed in time"))
        else:
            pending.given_up = True
            pending.fail(BusUnavailableError(f"nothing was written to {where}: there is no connection"))

    def close(self) -> None:
        """Give up what isn't confirmed yet."""
        for pending in self._under_way:
            pending.fail(DeliveryUnknownError("the producer was stopped before this was confirmed"))
        for pending in self._waiting:
            pending.fail(BusUnavailableError("the producer was stopped before this was written"))
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
