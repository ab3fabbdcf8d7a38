"""The loop of result-delivery: read, commit, tell. Turned by headrace.runtime's supervisor, or by `wiring.serve`.

One turn reads what is there, commits all of it in one SQL transaction, and sends what that transaction put into the outbox.
A lone result is committed at once; batches grow only while a commit is under way.
Invariant: what was read is held until it is committed, and dropped only with its partition; a position that isn't where we
believe (another member, or a commit whose answer was lost) is asked for again, and reading goes on from there. Nothing is
told before it is committed. The group is polled at every turn, also while SQL is down.
"""

from collections.abc import Mapping
from datetime import timedelta

from headrace.bus.messages import Place, Received
from headrace.bus.ports import START, BusUnavailableError, GroupReader, LoopProducer
from headrace.result_delivery.backoff import Backoff
from headrace.result_delivery.decisions.is_it_a_result import Outcome, Refusal, outcome_of
from headrace.result_delivery.decisions.what_to_commit import Commit, what_to_commit
from headrace.result_delivery.decisions.what_to_tell import Destinations
from headrace.result_delivery.intake import Intake
from headrace.result_delivery.letters import DeadLetters
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.result_delivery.outbox import Outbox
from headrace.result_delivery.ports import (
    LostPartitionError,
    Move,
    OutboxRow,
    Store,
    StoreUnavailableError,
)
from headrace.runtime.clock import Clock
from headrace.runtime.health import Component
from headrace.runtime.logging import get_logger

BATCH, BATCH_BYTES = 500, 32 * 1024 * 1024
_GULP = 50
_IDLE, _BLOCKED = timedelta(milliseconds=100), timedelta(milliseconds=20)
_PATIENCE = timedelta(seconds=1)
_PAGE = 100
_MS = timedelta(milliseconds=1)


class ResultDelivery:
    """One member of the group. Only its own thread touches it."""

    def __init__(
        self,
        *,
        reader: GroupReader,
        producer: LoopProducer,
        store: Store,
        topic: str,
        dlq: str,
        destinations: Destinations,
        clock: Clock,
        metrics: DeliveryMetrics,
        component: Component,
    ) -> None:
        self._reader, self._producer, self._store = reader, producer, store
        self._topic, self._destinations = topic, destinations
        self._clock, self._metrics, self._component = clock, metrics, component
        self._intake = Intake()
        self._outbox = Outbox(producer, clock)
        self._letters = DeadLetters(producer, dlq, clock, metrics)
        self._backoff = Backoff(clock, timedelta(milliseconds=50), timedelta(seconds=5))
        self._paused: set[Place] = set()
        self._swept: int | None = 0
        self._reads, self._assigning = True, False
        self._log = get_logger("delivery")

    def start(self) -> None:
        """Joins the group. What an earlier life left in the outbox is sent in the first turns."""
        self._reader.subscribe([self._topic], assigned=self._assigned, revoked=self._revoked)

    def turn(self) -> None:
        """Reads, commits, tells; waits 100 ms at most where there is nothing to do, some seconds where SQL is locked.

        Raises BusUnavailableError when an assignment failed half-way: this reader must be replaced.
        """
        before = len(self._intake.held)
        self._gather()
        self._hear()
        if self._backoff.due():
            try:
                self._work(idle=len(self._intake.held) == before)
            except StoreUnavailableError as error:
                self._store_failed(error)
            except BusUnavailableError as error:
                self._kafka_failed(error)
        self._outbox.send()
        self._pause()
        self._metrics.outbox_depth.set(self._outbox.depth)
        self._say_readiness()

    def drain(self) -> bool:
        """Hears the last confirmations, so that a successor sends as little as possible again."""
        self._producer.flush(_PATIENCE)
        self._hear()
        try:
            self._forget()
        except StoreUnavailableError as error:
            self._log.warning("sent messages stay in the outbox and will be sent again", reason=str(error))
        return True

    def stop(self) -> None:
        """Leaves the group. What wasn't confirmed stays in the outbox; the store stays open, it is the caller's."""
        self._reader.close()
        self._producer.close()

    def _assigned(self, places: list[Place]) -> Mapping[Place, int]:
        """Called by the reader while the group changes. Without SQL: read from anywhere, drop it, ask again later."""
        self._metrics.rebalances.inc()
        self._swept, self._assigning = 0, True
        try:
            positions = self._store.positions(places)
        except StoreUnavailableError as error:
            self._log.warning("no positions for new partitions", reason=str(error))
            self._intake.doubt(places)
            return dict.fromkeys(places, START)
        self._intake.begin(places, positions)
        self._metrics.partitions.set(len(self._intake.places))
        self._log.info("partitions assigned", partitions=[place.partition for place in places])
        return {place: positions.get(place, START) for place in places}

    def _revoked(self, places: list[Place]) -> None:
        self._intake.lose(places)
        self._metrics.partitions.set(len(self._intake.places))
        self._log.info("partitions revoked", partitions=[place.partition for place in places])

    def _gather(self) -> None:
        """As much as one commit should hold; more than a gulp only when more is there already."""
        wait, size, count = self._wait(), 0, 0
        while count < BATCH and size < BATCH_BYTES:
            try:
                records = self._reader.read(_GULP, wait)
            except BusUnavailableError as error:
                if self._assigning:
                    raise
                self._kafka_failed(error)
                return
            self._reads, self._assigning = True, False
            self._intake.take(records)
            count += len(records)
            size += sum(len(record.value or b"") for record in records)
            if len(records) < _GULP:
                return
            wait = timedelta()

    def _wait(self) -> timedelta:
        """How long to wait for a first record: a moment only where something else is to be done soon."""
        busy = self._intake.in_doubt or self._intake.held or self._swept is not None
        return _BLOCKED if busy else _IDLE

    def _hear(self) -> None:
        for confirmation in self._producer.confirmations():
            match confirmation.token:
                case OutboxRow() as row:
                    self._outbox.confirmed(row, confirmation)
                case (Received() as record, Refusal() as refusal):
                    self._letters.confirmed(record, refusal, confirmation)

    def _work(self, *, idle: bool) -> None:
        """All that needs SQL; each part is one transaction. Raises StoreUnavailableError."""
        if self._intake.in_doubt:
            self._find_positions()
        if self._intake.held and not self._outbox.full:
            self._commit_held()
        elif idle:
            self._forget()
        if self._swept is not None and not self._outbox.full:
            self._sweep(self._swept)
        self._backoff.succeeded()

    def _find_positions(self) -> None:
        places = set(self._intake.in_doubt)
        positions = self._store.positions(places)
        self._reader.seek({place: positions.get(place, START) for place in places})
        self._intake.begin(places, positions)
        self._swept = 0

    def _commit_held(self) -> None:
        outcomes, refused = self._judged()
        if refused and not self._letters.all_confirmed(refused):
            self._letters.send(refused, _PATIENCE)
            self._hear()
            if not self._letters.all_confirmed(refused):
                return
        try:
            commit, rows = self._commit(outcomes)
        except LostPartitionError as lost:
            self._metrics.commit_failures.labels("lost_partition").inc()
            self._log.warning(
                "partitions lost, nothing committed", partitions=[p.partition for p in lost.places]
            )
            self._intake.doubt(lost.places)
            return
        self._letters.passed()
        self._outbox.add(rows)
        self._tell_of(commit)

    def _judged(self) -> tuple[list[Outcome], list[tuple[Received, Refusal]]]:
        outcomes, refused = [], []
        for record in self._intake.held:
            judged = outcome_of(record.partition, record.value, record.headers)
            if isinstance(judged, Outcome):
                outcomes.append(judged)
            else:
                refused.append((record, judged))
        return outcomes, refused

    def _commit(self, outcomes: list[Outcome]) -> tuple[Commit, list[OutboxRow]]:
        """One transaction. Raises LostPartitionError, StoreUnavailableError."""
        forgettable = self._outbox.forgettable()
        positions = {record.place: record.offset + 1 for record in self._intake.held}
        moves = [Move(place, self._intake.stand(place), new) for place, new in positions.items()]
        with self._metrics.commit_seconds.time(), self._store.transaction() as transaction:
            transaction.move(moves)
            commit = what_to_commit(
                outcomes,
                transaction.known([outcome.record.id for outcome in outcomes]),
                committed_ms=self._clock.now().wall_ms,
                destinations=self._destinations,
            )
            transaction.insert(commit.rows)
            rows = transaction.enqueue(commit.outbox)
            transaction.forget(forgettable)
        self._intake.committed(positions)
        self._outbox.forgotten(forgettable)
        return commit, rows

    def _tell_of(self, commit: Commit) -> None:
        for row in commit.rows:
            self._metrics.results.labels(row["status"]).inc()
            self._log.debug(
                "result committed", request_id=row["id"], tenant=row["tenant"], status=row["status"]
            )
        for request_id in commit.suppressed:
            self._metrics.suppressed.inc()
            self._log.info("later result suppressed", request_id=request_id)

    def _forget(self) -> None:
        sequences = self._outbox.forgettable()
        if sequences:
            with self._store.transaction() as transaction:
                transaction.forget(sequences)
            self._outbox.forgotten(sequences)

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

    def _kafka_failed(self, error: BusUnavailableError) -> None:
        if self._reads:
            self._log.warning("Kafka can't be read, trying again", reason=str(error))
        self._reads = False

    def _pause(self) -> None:
        """Nothing is read of what is in doubt; nothing at all while something read or told can't get on."""
        blocked = bool(self._intake.held) or self._outbox.full
        wanted = self._intake.places if blocked else set(self._intake.in_doubt)
        if wanted != self._paused:
            self._reader.pause(wanted)
            self._paused = wanted

    def _say_readiness(self) -> None:
        if self._backoff.failing:
            self._component.not_ready("SQL can't be used: results wait in the log")
        elif not self._reads or self._outbox.failing:
            self._component.not_ready("Kafka can't be used")
        else:
            self._component.ready()
