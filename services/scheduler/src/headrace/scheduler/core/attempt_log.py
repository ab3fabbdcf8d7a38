"""Reads `attempts`: settles counters, finishes requests, puts failed ones back. Called by PoolCore for each record.

Invariant: any Done or Dead finishes its request, whichever attempt it came from; a RetryAt is stale once a greater attempt of
the request is known; an attempt is settled once; a record that can't be read or lies moves nothing and is dead-lettered,
here or by result-delivery.
"""

from dataclasses import replace

from headrace.bus.dead_letters import reason_of
from headrace.bus.messages import Place, Received
from headrace.contracts.barriers import Barrier
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.commands import CancelReason
from headrace.contracts.failures import FailureKind
from headrace.contracts.lies import Lie, lie_in_attempt
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core import pacing
from headrace.scheduler.core.believing import believed
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.continuing import left_by
from headrace.scheduler.core.counted import OF_VERDICT, Counted
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.finishing import Finishing
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import MINUTE_MS, PoolState
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.routing import Routing
from headrace.scheduler.core.same_log import note_leader
from headrace.scheduler.core.suspicion import FailedAttempt, Suspicion
from headrace.scheduler.decisions.is_it_true import Before, lie_about_request, lie_in_order
from headrace.scheduler.state.partitions import RequestPartition
from headrace.scheduler.state.tracked import Phase

_HANDED_BACK = frozenset({FailureKind.WORKER_NOT_LEASED, FailureKind.WORKER_DRAINED})


class AttemptLog:
    """Folds `attempts`."""

    def __init__(
        self,
        state: PoolState,
        finishing: Finishing,
        returning: Returning,
        commands: Commands,
        endings: Endings,
        suspicion: Suspicion,
        estimating: Estimating,
        holding: Holding,
        routing: Routing,
    ) -> None:
        self._state, self._finishing, self._returning = state, finishing, returning
        self._commands, self._endings, self._suspicion = commands, endings, suspicion
        self._estimating, self._holding, self._routing = estimating, holding, routing
        self._tell_left_ms = 0

    def read(self, received: Received) -> None:
        """One record."""
        state = self._state
        note_leader(state, received, read_to=state.attempts_read[received.partition])
        if received.offset < state.attempts_read[received.partition]:
            return
        state.attempts_read[received.partition] = received.offset + 1
        try:
            record: AttemptRecord | Barrier = decode(TopicKind.ATTEMPTS, received.header)
        except UndecodableError as error:
            self._endings.bury(received, reason_of(received, error), str(error))
            return
        if isinstance(record, Barrier):
            return
        outcome = Outcome.of(record, state)
        lie = self._lie_in(outcome, received.partition)
        if lie is not None:
            self._refuse(received, lie)
        elif record.attempt.epoch > state.epoch:
            state.greater_epoch = record.attempt.epoch
        elif state.partitions.of(record.origin) is None:
            self._note_unserved(record)
        else:
            self._fold(outcome, received)

    def _note_unserved(self, record: AttemptRecord) -> None:
        """It ran in a tier that is no longer in the policy. What has ended isn't run again when the tier is back."""
        place = Place(record.origin.topic, record.origin.partition)
        if record.verdict is not Verdict.RETRY_AT:
            partition = self._state.unserved.setdefault(place, RequestPartition(place, record.tier))
            partition.finish(record.origin.offset)

    def _refuse(self, received: Received, lie: Lie) -> None:
        """Whose a request is SQL knows for longer than we do: result-delivery, which reads it too, buries such a record."""
        if lie.kind is not FailureKind.FOREIGN_TENANT:
            self._endings.bury(received, *lie)
            return
        state = self._state
        state.count(Counted.LEFT_TO_DELIVERY)
        if state.now.boot_ms >= self._tell_left_ms:
            self._tell_left_ms = state.now.boot_ms + MINUTE_MS
            state.notice(
                "attempts of other tenants than their requests': result-delivery dead-letters them", warning=True,
                topic=received.topic, partition=received.partition, offset=received.offset,
            )  # fmt: skip

    def _lie_in(self, outcome: Outcome, partition: int) -> Lie | None:
        state, record, tracked = self._state, outcome.record, outcome.tracked
        at = state.partitions.of(record.origin)
        tier = self._unserved_tier(record) if at is None else at.tier
        known = tracked is not None and (tracked.origin, tracked.record.hop) == (record.origin, record.hop)
        lie = lie_in_attempt(record, pool=state.setting.pool, tier=tier, partition=partition, known=known)
        if lie is None and tracked is not None:
            lie = lie_about_request(record, origin=tracked.origin, tenant=tracked.record.tenant)
        before = self._before(outcome)
        return lie or lie_in_order(record, epoch=state.epoch, sequence=state.sequence, before=before)

    def _unserved_tier(self, record: AttemptRecord) -> str | None:
        """Its tier, if it is one of this pool that is no longer in the policy."""
        setting, tier = self._state.setting, record.tier
        if tier not in self._state.unserved_tiers:
            return None
        came_by = setting.names.of(TopicKind.REQUESTS, pool=setting.pool, tier=tier)
        return tier if record.origin.topic == came_by else None

    def _before(self, outcome: Outcome) -> Before | None:
        """The latest attempt of its request that is known, and its count."""
        held, tracked = outcome.held, outcome.tracked
        if held is not None:
            return Before(held.attempt, held.attempts)
        failed = self._state.retrying.get(outcome.record.id)
        if failed is None or (tracked is not None and tracked.last > failed.attempt):
            return None
        return Before(failed.attempt, failed.attempts)

    def _fold(self, outcome: Outcome, received: Received) -> None:
        self._settle(outcome)
        self._state.count(OF_VERDICT[outcome.record.verdict])
        if outcome.record.verdict is Verdict.RETRY_AT:
            self._retry(outcome.record, received)
        else:
            self._finish(outcome)

    def _spare(self, record: AttemptRecord) -> None:
        """It would be handed back at once, again and again, for as long as the worker can't report why."""
        worker = self._state.workers.by_boot(record.boot or "")
        if worker is not None:
            worker.refuses = True
            self._holding.forget(worker.boot)

    def _settle(self, outcome: Outcome) -> None:
        """Book what was spent, once for each attempt."""
        state = self._state
        state.told.pop(outcome.record.attempt, None)
        if not state.settles(outcome.record.attempt):
            return
        outcome = believed(state, outcome)
        record = outcome.record
        self._holding.ended(outcome)
        pacing.ended(state, outcome)
        self._routing.ended(outcome)
        if not record.started:
            return
        self._estimating.learn(outcome)
        self._estimating.measure(outcome)
        charged = None if record.verdict is Verdict.RETRY_AT else record.charge or None
        flow = self._flow_of(outcome)
        state.settle(record.tier, record.tenant, self._estimating.spent(outcome), charged=charged, flow=flow)

    def _flow_of(self, outcome: Outcome) -> int | None:
        """The flow that this attempt of a request is booked on; None: none, or nobody knows."""
        own, tracked = outcome.own, outcome.tracked
        if own is not None:
            return own.flow
        return None if tracked is None else self._state.queue.flow_of(tracked.record)

    def _finish(self, outcome: Outcome) -> None:
        record, held = outcome.record, outcome.held
        if record.status is Status.SUCCEEDED:
            self._suspicion.did_well(record.worker)
        if held is not None:
            self._returning.let_go(held)
            if held.attempt != record.attempt:
                self._commands.cancel_held(held, CancelReason.SUPERSEDED)
        self._finishing.finish(record.id, record.origin)

    def _retry(self, record: AttemptRecord, received: Received) -> None:
        state, held = self._state, self._state.held.of(record.id)
        before, tracked = state.retrying.get(record.id), state.tracked.get(record.id)
        if held is not None:
            if record.attempt < held.attempt:
                return
            self._returning.let_go(held)
        elif (before is not None and record.attempt <= before.attempt) or (
            tracked is not None and (record.attempt < tracked.last or tracked.phase is Phase.ENDING)
        ):
            return
        if state.is_finished(record.id, record.origin):
            return
        kind: FailureKind | None = record.failure.kind if record.failure is not None else None
        if kind in _HANDED_BACK:
            self._spare(record)
        self._returning.failed(replace(self._as_failed(record, kind), left=left_by(record, received)))

    def _as_failed(self, record: AttemptRecord, kind: FailureKind | None) -> FailedAttempt:
        return FailedAttempt(
            id=record.id,
            tenant=record.tenant,
            origin=record.origin,
            attempt=record.attempt,
            attempts=record.attempts,
            kind=kind,
            started=record.started,
            at_ms=record.times.finished_ms or self._state.now.wall_ms,
            at_least_ms=0 if record.failure is None else record.failure.retry_after_ms or 0,
            worker=record.worker or "unknown",
            boot=record.boot or "",
            trial=record.trial,
            message="" if record.failure is None else record.failure.message,
        )
