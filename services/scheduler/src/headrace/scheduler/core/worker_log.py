"""Reads `workers`: who is there, and who is dead. Called by PoolCore for each record; what they hold is for reconciling.

Invariant: death is decided by the log; only a report of this epoch says what a worker holds.
"""

from headrace.bus.dead_letters import reason_of
from headrace.bus.messages import Received
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.durations import ms
from headrace.contracts.failures import FailureKind
from headrace.contracts.lies import Lie
from headrace.contracts.reports import Gone, Report, Tick, WorkerRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Origin
from headrace.scheduler.core import backend_pacing
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.reconciling import Reconciling
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.ticking import Ticking
from headrace.scheduler.core.twins import tell_of_a_twin
from headrace.scheduler.decisions.is_dead import deaf_too_long
from headrace.scheduler.decisions.is_it_true import lie_in_report
from headrace.scheduler.state.workers import Worker


class WorkerLog:
    """Folds `workers`."""

    def __init__(
        self,
        state: PoolState,
        returning: Returning,
        commands: Commands,
        endings: Endings,
        *,
        ticking: Ticking,
        reconciling: Reconciling,
        holding: Holding,
    ) -> None:
        self._state, self._returning, self._commands, self._endings = state, returning, commands, endings
        self._ticking, self._reconciling, self._holding = ticking, reconciling, holding

    def read(self, received: Received) -> None:
        """One record."""
        state = self._state
        if received.offset < state.workers_read:
            return
        state.workers_read = received.offset + 1
        try:
            record: WorkerRecord = decode(TopicKind.WORKERS, received.header)
        except UndecodableError as error:
            self._refuse(received, reason_of(received, error), str(error))
            return
        if isinstance(record, Tick):
            self._ticked(received, record)
        elif isinstance(record, Gone):
            worker = state.workers.by_boot(record.boot)
            if worker is not None:
                self._notice("worker left", worker, warning=False)
                self._bury(worker, harmless=True)
        elif (lie := self._lie_in(record)) is not None:
            self._refuse(received, *lie)
        else:
            self._reported(record)

    def fence(self) -> None:
        """Ask those who haven't answered this owner yet, each second."""
        state = self._state
        for worker in state.workers.live.values():
            due = state.now.boot_ms - worker.fenced_ms >= ms(state.setting.timings.repeat)
            if worker.report.epoch < state.epoch and due:
                worker.fenced_ms = state.now.boot_ms
                self._commands.fence(worker.report.lane)

    def _lie_in(self, report: Report) -> Lie | None:
        state = self._state

        def tier_of(origin: Origin) -> str | None:
            partition = state.partitions.of(origin)
            return None if partition is None else partition.tier

        def tenant_of(request_id: str) -> str | None:
            tracked = state.tracked.look(request_id)
            return None if tracked is None else tracked.record.tenant

        lanes = state.setting.policy.topics.lanes
        return lie_in_report(report, lanes=lanes, tier_of=tier_of, tenant_of=tenant_of)

    def _refuse(self, received: Received, kind: FailureKind, detail: str) -> None:
        """Once, by the owner at that time: who comes later reads it again, and only passes it."""
        if self._state.caught_up:
            self._endings.bury(received, kind, detail)

    def _notice(self, event: str, worker: Worker, *, warning: bool = True) -> None:
        """Only what happens now: a new owner reads an hour of deaths that others have told."""
        if self._state.caught_up:
            self._state.count(Counted.WORKERS_DIED if warning else Counted.WORKERS_LEFT)
            self._state.notice(event, warning=warning, worker=worker.name, boot=worker.boot)

    def _ticked(self, received: Received, tick: Tick) -> None:
        state = self._state
        if self._ticking.is_forged(tick):
            detail = f"Tick {tick.number} of this owner was never written by it."
            self._endings.bury(received, FailureKind.LYING_RECORD, detail)
            return
        if tick.epoch > state.epoch:
            state.greater_epoch = tick.epoch
        self._ticking.read_back(tick)
        for worker in state.workers.ticked(tick):
            self._notice("worker is dead: it stopped reporting", worker)
            self._bury(worker)

    def _reported(self, report: Report) -> None:
        state = self._state
        if report.epoch > state.epoch:
            state.greater_epoch = report.epoch
        if report.boot in state.workers.graves:
            self._answer_grave(report)
            return
        if state.workers.is_late(report.worker, report.boot):
            return
        worker, lesser = state.workers.heard(report)
        if lesser is not None:
            self._bury(lesser, harmless=report.instead_of == lesser.boot)
        self._came_back(report.instead_of)
        state.backend_ceilings.take(report.worker, report.per_minute, state.now.boot_ms)
        if self._is_deaf(report):
            self._notice("worker is dead: it doesn't read its lane", worker)
            self._bury(worker, harmless=True)
        elif report.epoch >= state.epoch:
            state.workers.caches.begin(report.boot, report.ran)
            self._reconciling.reconcile(report)
            backend_pacing.heard(state, worker)
            self._holding.reported(report)

    def _came_back(self, boot: str | None) -> None:
        """Its process says itself that it gave this boot up: it had lost touch, and nothing killed it."""
        grave = None if boot is None else self._state.workers.graves.get(boot)
        if boot is not None and grave is not None and not grave.harmless:
            grave.harmless = True
            self._returning.came_back(boot)

    def _bury(self, worker: Worker, *, harmless: bool = False) -> None:
        self._state.workers.bury(worker, harmless=harmless)
        self._holding.forget(worker.boot)
        self._state.held.holds_besides(worker.boot, ())
        self._reconciling.lost_with(worker, harmless=harmless)

    def _answer_grave(self, report: Report) -> None:
        grave, state = self._state.workers.graves[report.boot], self._state
        tell_of_a_twin(state, report, grave)
        if state.now.boot_ms - grave.told_ms >= ms(state.setting.timings.repeat):
            grave.told_ms = state.now.boot_ms
            self._commands.bury(report.lane, report.boot)

    def _is_deaf(self, report: Report) -> bool:
        """Judged only while the log is read at its end: of an old report it would be a wrong word."""
        state = self._state
        if self._ticking.behind:
            return False
        unread = state.lanes.unread_since(report.lane, report.position)
        lane = [w.report.position for w in state.workers.live.values() if w.report.lane == report.lane]
        state.lanes.forget_read(report.lane, min(lane, default=report.position))
        return deaf_too_long(unread, state.now.boot_ms, ms(state.setting.timings.deaf))
