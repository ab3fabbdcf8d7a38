"""The sends of an asyncio producer that wait for their turn, one lane for each partition. Called by KafkaAsyncProducer.

Invariant: a lane has one batch on the way at a time, so that order is kept; what gathers meanwhile goes together as the
next batch. A send that its caller gave up on before it was handed over is never handed over.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.bus.messages import Message
from headrace.bus.ports import BusError, BusUnavailableError, DeliveryUnknownError

BATCH_BYTES = 512 * 1024
"""A batch is closed by the message that reaches this; a larger message goes alone."""
_RECORD_OVERHEAD = 32


def size_of(message: Message) -> int:
    """About the bytes that the message takes in the log."""
    headers = sum(len(name) + len(value) + 8 for name, value in message.headers)
    return _RECORD_OVERHEAD + len(message.key or b"") + len(message.value or b"") + headers


class Pending:
    """One send. `handed_over`: from here on it may be in the log."""

    __slots__ = ("_timer", "future", "handed_over", "message", "size")

    def __init__(self, message: Message, timeout: timedelta, loop: asyncio.AbstractEventLoop) -> None:
        self.message, self.size = message, size_of(message)
        self.handed_over = False
        self.future: asyncio.Future[int] = loop.create_future()
        self._timer = loop.call_later(timeout.total_seconds(), self._expire)

    @property
    def given_up(self) -> bool:
        """Whether it ran out of time before it was handed over: it must not be written any more."""
        return self.future.done() and not self.future.cancelled() and not self.handed_over

    def _expire(self) -> None:
        where = f"{self.message.topic}/{self.message.partition}"
        if self.handed_over:
            self.fail(DeliveryUnknownError(f"a write to {where} wasn't confirmed in time"))
        else:
            self.fail(BusUnavailableError(f"nothing was written to {where}: earlier writes are stuck"))

    def succeed(self, offset: int) -> None:
        """Confirmed."""
        self._timer.cancel()
        if not self.future.done():
            self.future.set_result(offset)

    def fail(self, error: BusError) -> None:
        """Refused, or not known."""
        self._timer.cancel()
        if not self.future.done():
            self.future.set_exception(error)


@dataclass
class Lane:
    """What waits for one partition, and the task that empties it while there is something."""

    waiting: deque[Pending] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None

    def take(self) -> list[Pending]:
        """The next batch, without what was given up on; at least one message unless the lane is empty."""
        batch: list[Pending] = []
        size = 0
        while self.waiting:
            following = self.waiting[0]
            if following.given_up:
                self.waiting.popleft()
                continue
            if batch and size + following.size > BATCH_BYTES:
                break
            size += following.size
            batch.append(self.waiting.popleft())
        return batch
