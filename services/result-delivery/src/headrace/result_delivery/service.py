"""The loop of result-delivery: read, commit, tell. Turned by headrace.runtime's supervisor, or by `wiring.serve`.

One turn reads what is there, commits all of it in one SQL transaction, and sends what that transaction put into the outbox.
A lone result is committed at once; batches grow only while a commit is under way. Nobody waits for the ledger and the list
of requests: they wait a little for company, which saves transactions.
Invariant: what was read is held until it is committed, and dropped only with its partition; a position that isn't where we
believe (another member, or a commit whose answer was lost) is asked for again, and reading goes on from there. Nothing is
told before it is committed. The group is polled at every turn, also while SQL is down.
"""

from datetime import timedelta

from headrace.bus.messages import Received
from headrace.bus.ports import BusUnavailableError, LoopProducer
from headrace.contracts.control import DeliveryPosition
from headrace.result_delivery.backoff import Backoff
from headrace.result_delivery.committing import Committing
from headrace.result_delivery.decisions.why_refused import Refused
from headrace.result_delivery.forgetting import Forgetting
from headrace.result_delivery.letters import DeadLetters
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.result_delivery.outbox import Outbox
from headrace.result_delivery.ports import OutboxRow, Store, StoreUnavailableError
from headrace.result_delivery.publishing import Publishing
from headrace.result_delivery.reading import BATCH, Reading
from headrace.result_delivery.trimming import Trimming
from headrace.runtime.clock import Clock
from headrace.runtime.health import Component
from headrace.runtime.logging import get_logger

_IDLE, _SOON = timedelta(milliseconds=100), timedelta(milliseconds=20)
_LAST_WORDS = timedelta(seconds=1)
_LINGER_MS = 250
"""How long what nobody waits for is held before it is committed."""
_PAGE = 100


class ResultDelivery:
    """One member of the group. Only its own thread touches it."""

    def __init__(
        self,
        *,
        reading: Reading,
        committing: Committing,
        outbox: Outbox,
        letters: DeadLetters,
        publishing: Publishing,
        trimming: Trimming,
        forgetting: Forgetting,
        producer: LoopProducer,
        store: Store,
        clock: Clock,
        metrics: DeliveryMetrics,
        component: Component,
    ) -> None:
        self.reading, self._committing = reading, committing
        self._outbox, self._letters, self._producer, self._store = outbox, letters, producer, store
        self._publishing, self._trimming, self._forgetting = publishing, trimming, forgetting
        self._clock = clock
        self._metrics, self._component = metrics, component
        self._held_ms: int | None = None
        self._stuck = False
        self._backoff = Backoff(clock, timedelta(milliseconds=50), timedelta(seconds=5))
        self._swept: int | None = None
        self._log = get_logger("delivery")

    def start(self) -> None:
        """Joins the group. What an earlier life left in the outbox is sent in the first turns."""
        self.reading.join()

    def turn(self) -> None:
        """Reads, commits, tells; waits 100 ms at most where there is nothing to do, some seconds where SQL is locked.

        Raises BusUnavailableError when an assignment failed half-way: this reader must be replaced. Raises DatabaseGoneError.
        """
        count = self.reading.gather(self._wait())
        self._hear()
        if self._backoff.due():
            try:
                self._work(idle=count == 0)
            except StoreUnavailableError as error:
                self._store_failed(error)
            except BusUnavailableError as error:
                self.reading.failed(error)
        self._outbox.send()
        stands = self.reading.share.stands()
        self._publishing.tell(stands)
        self._trimming.trim(stands)
        self._stuck = self._due()  # after the work: it couldn't be committed
        self.reading.hold_back(everything=self._stuck or self._outbox.full)
        self._metrics.outbox_depth.set(self._outbox.depth)
        self._say_readiness()

    def drain(self) -> bool:
        """Hears the last confirmations, so that a successor sends as little as possible again."""
        self._producer.flush(_LAST_WORDS)
        self._hear()
        try:
            self._committing.forget_sent()
        except StoreUnavailableError as error:
            self._log.warning("sent messages stay in the outbox and will be sent again", reason=str(error))
        return True

    def stop(self) -> None:
        """Leaves the group. What wasn't confirmed stays in the outbox; the store stays open, it is the caller's."""
        self.reading.leave()
        self._trimming.close()
        self._producer.close()

    def _wait(self) -> timedelta:
        """How long to wait for a first record: a moment only where something else is to be done soon."""
        share = self.reading.share
        busy = share.in_doubt or self._stuck or self._swept is not None or self.reading.changed
        return _SOON if busy else _IDLE

    def _hear(self) -> None:
        for confirmation in self._producer.confirmations():
            match confirmation.token:
                case OutboxRow() as row:
                    self._outbox.confirmed(row, confirmation)
                case (Received() as record, Refused() as refusal):
                    self._letters.confirmed(record, refusal, confirmation)
                case DeliveryPosition() as position:
                    self._publishing.confirmed(position, confirmation)

    def _due(self) -> bool:
        """Whether what is held is to be committed now."""
        share = self.reading.share
        if not share.held:
            self._held_ms = None
            return False
        now_ms = self._clock.now().boot_ms
        if self._held_ms is None:
            self._held_ms = now_ms
        return len(share.held) >= BATCH or now_ms - self._held_ms >= _LINGER_MS or share.urgent

    def _work(self, *, idle: bool) -> None:
        """All that needs SQL; each part is one transaction. Raises StoreUnavailableError, BusUnavailableError."""
        share = self.reading.share
        self.reading.find_positions()
        if self._due() and not self._outbox.full:
            self._committing.commit(share)
        elif idle:
            self._committing.forget_sent()
            self._forgetting.turn()
        if self.reading.changed:
            self._swept, self.reading.changed = 0, False
        if self._swept is not None and not self._outbox.full:
            self._sweep(self._swept)
        self._backoff.succeeded()

    def _sweep(self, after: int) -> None:
        """One page of what others, or an earlier life, committed and may not have sent."""
        rows = self._store.outbox(after, _PAGE)
        self._outbox.add(rows)
        self._swept = rows[-1].sequence if len(rows) == _PAGE else None

    def _store_failed(self, error: StoreUnavailableError) -> None:
        if not self._backoff.failing:
            self._log.warning("SQL can't be used, trying again", reason=str(error))
        self._metrics.commit_failures.labels("store").inc()
        self._backoff.failed()

    def _say_readiness(self) -> None:
        if self._backoff.failing:
            self._component.not_ready("SQL can't be used: results wait in the log")
        elif self.reading.failing or self._outbox.failing:
            self._component.not_ready("Kafka can't be used")
        elif unusable := self.reading.share.unusable:
            self._component.not_ready(next(iter(unusable.values())))
        else:
            self._component.ready()
