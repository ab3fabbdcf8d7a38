"""Commits what was read, in one SQL transaction: positions, results, requests, ledger, outbox. Called by the service.

Invariant: a batch is committed whole or not at all, by the member that the positions say it belongs to, and only after each
record in it that was refused, and is ours to bury, is in `dlq`.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta

from headrace.bus.messages import Received
from headrace.contracts.failures import FailureKind
from headrace.result_delivery.decisions.is_it_a_result import TerminalRecord
from headrace.result_delivery.decisions.what_to_commit import Commit, Found, what_to_commit
from headrace.result_delivery.decisions.what_to_tell import Destinations
from headrace.result_delivery.decisions.where_to_read import Stand
from headrace.result_delivery.decisions.whose_attempt_is_it import attempts_at, strangers
from headrace.result_delivery.decisions.why_refused import Refused
from headrace.result_delivery.letters import DeadLetters
from headrace.result_delivery.observing import DeliveryMetrics
from headrace.result_delivery.outbox import Outbox
from headrace.result_delivery.ports import LostPartitionError, Move, OutboxRow, Store
from headrace.result_delivery.share import ReadShare
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger
from headrace.runtime.rarely import Rarely

PATIENCE = timedelta(seconds=1)
"""How long one turn waits for dead letters to be confirmed."""


class _StrangersError(Exception):
    """Attempts that are to be refused, by their place in what is held: nothing of the transaction was kept."""

    def __init__(self, refusals: dict[int, Refused]) -> None:
        super().__init__("attempts name other tenants than their requests")
        self.refusals = refusals


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
        id_of: Callable[[str], str | None],
    ) -> None:
        """`id_of`: the id of a topic by its name."""
        self._store, self._outbox, self._letters, self._id_of = store, outbox, letters, id_of
        self._destinations, self._clock, self._metrics = destinations, clock, metrics
        self._log = get_logger("committing")
        self._rarely = Rarely(self._log, clock)

    def commit(self, share: ReadShare) -> None:
        """Commits all that is held, or leaves it held until its dead letters are confirmed. Raises StoreUnavailableError."""
        refused = _refused(share)
        if not self._letters.all_confirmed(refused):
            self._letters.send(refused, PATIENCE)
            return
        try:
            commit, rows = self._transact(share)
        except _StrangersError as found:
            share.refuse(found.refusals)  # the next call sends their dead letters
            return
        except LostPartitionError as lost:
            self._metrics.commit_failures.labels("lost_partition").inc()
            self._log.warning("partitions lost, nothing committed", places=_names(lost))
            share.doubt(lost.places)
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

    def _transact(self, share: ReadShare) -> tuple[Commit, list[OutboxRow]]:
        """One transaction. Raises LostPartitionError, StoreUnavailableError, _StrangersError."""
        forgettable = self._outbox.forgettable()
        stands = {each.place: Stand(each.offset + 1, self._id_of(each.place.topic)) for each in share.held}
        moves = [Move(place, share.stand(place), new) for place, new in stands.items()]
        found = [each.found for each in share.held if not isinstance(each.found, Refused)]
        tried = attempts_at(found)
        with self._metrics.commit_seconds.time(), self._store.transaction() as transaction:
            transaction.move(moves)
            if tried and (refused := _strangers(share, transaction.tenants(tried))):
                raise _StrangersError(refused)
            commit = what_to_commit(
                found,
                transaction.known(_results(found)),
                committed_ms=self._clock.now().wall_ms,
                destinations=self._destinations,
            )
            transaction.insert(commit.rows)
            transaction.note(commit.requests)
            transaction.book(commit.ledger)
            rows = transaction.enqueue(commit.outbox)
            transaction.forget(forgettable)
        share.committed(stands)
        self._outbox.forgotten(forgettable)
        return commit, rows

    def _tell_of(self, commit: Commit) -> None:
        for row in commit.rows:
            self._metrics.results.labels(row["status"]).inc()
            self._log.debug(
                "result committed", request_id=row["id"], tenant=row["tenant"], status=row["status"]
            )
        self._metrics.requests.inc(len(commit.requests))
        self._metrics.attempts.inc(len(commit.ledger))
        self._tell_of_left(commit.left)
        for request_id in commit.suppressed:
            self._metrics.suppressed.inc()
            self._log.info("later result suppressed", request_id=request_id)

    def _tell_of_left(self, reasons: list[FailureKind]) -> None:
        for reason in reasons:
            self._metrics.left_to_owner.labels(reason.value).inc()
        sentence = "records can't be stored: the owner of their pool dead-letters them"
        self._rarely.warning(sentence, times=len(reasons))


def _refused(share: ReadShare) -> list[tuple[Received, Refused]]:
    return [
        (each.received, each.found)
        for each in share.held
        if isinstance(each.found, Refused) and each.received is not None
    ]


def _strangers(share: ReadShare, noted: Mapping[str, str]) -> dict[int, Refused]:
    numbers = [n for n, each in enumerate(share.held) if not isinstance(each.found, Refused)]
    found = [each.found for each in share.held if not isinstance(each.found, Refused)]
    return {numbers[index]: refusal for index, refusal in strangers(found, noted).items()}


def _results(found: list[Found]) -> list[str]:
    return [each.record.id for each in found if isinstance(each, TerminalRecord)]


def _names(lost: LostPartitionError) -> list[str]:
    return [f"{topic}/{partition}" for topic, partition in lost.places]
