"""Sends what was committed, and remembers what SQL may forget. Called by the service, once a turn.

Invariant: a message is sent only after its commit, and its row goes only after the log has confirmed it; so a message may
be sent twice and is never lost.
"""

from collections import deque
from collections.abc import Iterable
from datetime import timedelta

from headrace.bus.messages import Message
from headrace.bus.ports import BusError, Confirmation, LoopProducer, QueueFullError, TooLargeError
from headrace.result_delivery.backoff import Backoff
from headrace.result_delivery.ports import OutboxRow
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger

MAX_ROWS = 5_000
MAX_BYTES = 64 * 1024 * 1024


class Outbox:
    """Rows by sequence, from their commit until their confirmation."""

    def __init__(self, producer: LoopProducer, clock: Clock) -> None:
        self._producer = producer
        self._pending: dict[int, int] = {}  # bytes by sequence
        self._unsent: deque[OutboxRow] = deque()
        self._bytes = 0
        self._confirmed: set[int] = set()
        self._backoff = Backoff(clock, timedelta(milliseconds=100), timedelta(seconds=5))
        self._log = get_logger("outbox")

    @property
    def depth(self) -> int:
        """Messages that aren't confirmed yet."""
        return len(self._pending)

    @property
    def full(self) -> bool:
        """Whether nothing more should be committed before some of this is confirmed."""
        return self.depth > MAX_ROWS or self._bytes > MAX_BYTES

    @property
    def failing(self) -> bool:
        """Whether the last thing heard was that a message couldn't be written."""
        return self._backoff.failing

    def add(self, rows: Iterable[OutboxRow]) -> None:
        """Rows whose transaction is committed; those that are known already are known already."""
        for row in rows:
            if row.sequence not in self._pending and row.sequence not in self._confirmed:
                self._pending[row.sequence] = size = _size(row.message)
                self._unsent.append(row)
                self._bytes += size

    def send(self) -> None:
        """Hands over as much as the producer takes."""
        if not self._backoff.due():
            return
        while self._unsent:
            row = self._unsent[0]
            try:
                self._producer.send(row.message, row)
            except QueueFullError:
                return
            except TooLargeError as error:
                self._give_up(row, error)
            self._unsent.popleft()

    def confirmed(self, row: OutboxRow, confirmation: Confirmation) -> None:
        """What became of a send."""
        error = confirmation.error
        if error is None:
            self._backoff.succeeded()
            self._done(row)
        elif isinstance(error, TooLargeError):
            self._give_up(row, error)
        else:
            if not self._backoff.failing:
                self._log.warning(
                    "outbox not confirmed, sending again", topic=row.message.topic, reason=str(error)
                )
            self._backoff.failed()
            self._unsent.append(row)

    def forgettable(self) -> list[int]:
        """Sequences whose rows may be deleted; `forgotten` when they are."""
        return sorted(self._confirmed)

    def forgotten(self, sequences: Iterable[int]) -> None:
        """These rows are deleted."""
        self._confirmed.difference_update(sequences)

    def _done(self, row: OutboxRow) -> None:
        size = self._pending.pop(row.sequence, None)
        if size is not None:
            self._bytes -= size
            self._confirmed.add(row.sequence)

    def _give_up(self, row: OutboxRow, error: BusError) -> None:
        """The broker will never take it, and the result is in SQL all the same."""
        self._log.error(
            "outbox message dropped: the topic doesn't take it", topic=row.message.topic, reason=str(error)
        )
        self._done(row)


def _size(message: Message) -> int:
    return len(message.value or b"") + sum(len(value) for _, value in message.headers)
