"""Commits what was read, in one SQL transaction: positions, results, outbox. Called by the service.

Invariant: a batch is committed whole or not at all, by the member that the positions say it belongs to, and only after each
record in it that holds no result is in `dlq`.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from headrace.bus.messages import Received
from headrace.result_delivery.decisions.is_it_a_result import Outcome, Refusal, outcome_of
from headrace.result_delivery.decisions.what_to_commit import Commit, what_to_commit
from headrace.result_delivery.decisions.what_to_tell import Destinations
from headrace.result_delivery.intake import Intake
from headrace.result_delivery.letters import DeadLetters
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.result_delivery.outbox import Outbox
from headrace.result_delivery.ports import LostPartitionError, Move, OutboxRow, Store
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger

PATIENCE = timedelta(seconds=1)
"""How long one turn waits for dead letters to be confirmed."""


@dataclass
class Judged:
    """What a batch holds: results, and records that are none."""

    outcomes: list[Outcome] = field(default_factory=list)
    refused: list[tuple[Received, Refusal]] = field(default_factory=list)


class Committing:
    """The writing side of the service."""

    def __init__(
        self,
        *,
        store: Store,
        outbox: Outbox,
        letters: DeadLetters,
        destinations: Destinations,
        clock: Clock,
        metrics: DeliveryMetrics,
    ) -> None:
        self._store, self._outbox, self._letters = store, outbox, letters
        self._destinations, self._clock, self._metrics = destinations, clock, metrics
        self._log = get_logger("committing")

    def commit(self, intake: Intake) -> None:
        """Commits all that is held, or leaves it held until its dead letters are confirmed. Raises StoreUnavailableError."""
        judged = _judged(intake.held)
        if not self._letters.all_confirmed(judged.refused):
            self._letters.send(judged.refused, PATIENCE)
            return
        try:
            commit, rows = self._transact(intake, judged.outcomes)
        except LostPartitionError as lost:
            self._metrics.commit_failures.labels("lost_partition").inc()
            partitions = [place.partition for place in lost.places]
            self._log.warning("partitions lost, nothing committed", partitions=partitions)
            intake.doubt(lost.places)
            return
        self._letters.passed()
        self._outbox.add(rows)
        self._tell_of(commit)

    def forget_sent(self) -> None:
        """Deletes what was confirmed, where no commit comes along to do it. Raises StoreUnavailableError."""
        sequences = self._outbox.forgettable()
        if sequences:
            with self._store.transaction() as transaction:
                transaction.forget(sequences)
            self._outbox.forgotten(sequences)

    def _transact(self, intake: Intake, outcomes: list[Outcome]) -> tuple[Commit, list[OutboxRow]]:
        """One transaction. Raises LostPartitionError, StoreUnavailableError."""
        forgettable = self._outbox.forgettable()
        positions = {record.place: record.offset + 1 for record in intake.held}
        moves = [Move(place, intake.stand(place), new) for place, new in positions.items()]
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
        intake.committed(positions)
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


def _judged(records: list[Received]) -> Judged:
    judged = Judged()
    for record in records:
        found = outcome_of(record.partition, record.value, record.headers)
        if isinstance(found, Outcome):
            judged.outcomes.append(found)
        else:
            judged.refused.append((record, found))
    return judged
