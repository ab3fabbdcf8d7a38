"""Reads `workers`: who is there, what they hold, who is dead; and writes the ticks by which that is judged.

Called by PoolCore. Invariant: death is decided by the log; only a report of this epoch says what a worker holds; what is held
but absent from it waits until `attempts` is read to an end noted after it.
"""

from functools import partial

from headrace.bus.dead_letters import reason_of
from headrace.bus.messages import Received, message_of
from headrace.bus.ports import Confirmation
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.commands import CancelReason
from headrace.contracts.failures import FailureKind
from headrace.contracts.lies import Lie
from headrace.contracts.reports import Gone, Held, Report, Tick, WorkerRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Origin
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.twins import tell_of_a_twin
from headrace.scheduler.decisions.is_dead import deaf_too_long
from headrace.scheduler.decisions.is_it_true import lie_in_report
from headrace.scheduler.decisions.what_it_costs import raised_charge
from headrace.scheduler.state.held import Absence, HeldAttempt
from headrace.scheduler.state.tracked import Phase
from headrace.scheduler.state.workers import Worker
from headrace.scheduler.timings import ms


class TickSent:
    """The token of the tick under way."""


class WorkerLog:
    """Folds `workers`."""

    def __init__(self, state: PoolState, returning: Returning, commands: Commands, endings: Endings) -> None:
        self._state, self._returning, self._commands, self._endings = state, returning, commands, endings
        self._tick, self._tick_out, self._ticked_ms = 0, False, -(10**12)

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

    def tick(self) -> None:
        """Write the next tick when it is due: one at a time, the next after the last was read back."""
        state = self._state
        if self._tick_out or state.now.boot_ms - self._ticked_ms < ms(state.setting.timings.tick):
            return
        self._tick_out = True
        tick = Tick(epoch=state.epoch, number=self._tick)
        state.send(message_of(state.setting.place(TopicKind.WORKERS), tick), TickSent())

    def tick_confirmed(self, confirmation: Confirmation) -> None:
        """One that timed out is sent again under its number; should both be there, they count once."""
        if confirmation.offset is None:
            self._tick_out = False
            self._ticked_ms = self._state.now.boot_ms

    def fence(self) -> None:
        """Ask those who haven't answered this owner yet, each second."""
        state = self._state
        for worker in state.workers.live.values():
            due = state.now.boot_ms - worker.fenced_ms >= ms(state.setting.timings.repeat)
            if worker.report.epoch < state.epoch and due:
                worker.fenced_ms = state.now.boot_ms
                self._commands.fence(worker.report.lane)

    def give_up_missing(self) -> None:
        """Those whose outcome would be known by now, had there been one, go back to the queue."""
        for held in list(self._state.missing.values()):
            read = self._state.attempts_read.get(held.origin.partition, 0)
            if held.absence is not None and held.absence.until is not None and read >= held.absence.until:
                self._lost(held)

    @property
    def next_tick_ms(self) -> int:
        """When (ms since boot) the next tick is due."""
        return self._ticked_ms + ms(self._state.setting.timings.tick)

    def _lie_in(self, report: Report) -> Lie | None:
        state = self._state

        def tier_of(origin: Origin) -> str | None:
            partition = state.partitions.of(origin)
            return None if partition is None else partition.tier

        def tenant_of(request_id: str) -> str | None:
            tracked = state.tracked.get(request_id)
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

    def _lost(self, held: HeldAttempt) -> None:
        grave = self._state.workers.graves.get(held.boot)
        self._state.count(Counted.ATTEMPTS_LOST)
        never_began = held.trial > 0 and not held.reported  # a trial is reported before it is begun
        if grave is not None and not grave.harmless and not never_began:
            self._returning.died(held, grave.worker)
        else:
            self._returning.unstarted(held)

    def _ticked(self, received: Received, tick: Tick) -> None:
        state = self._state
        if tick.epoch == state.epoch and tick.number > self._tick:
            detail = f"Tick {tick.number} of this owner was never written by it."
            self._endings.bury(received, FailureKind.LYING_RECORD, detail)
            return
        if tick.epoch > state.epoch:
            state.greater_epoch = tick.epoch
        if tick.epoch == state.epoch and tick.number == self._tick:
            self._tick, self._tick_out, self._ticked_ms = self._tick + 1, False, state.now.boot_ms
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
        if self._is_deaf(report):
            self._notice("worker is dead: it doesn't read its lane", worker)
            self._bury(worker, harmless=True)
        elif report.epoch >= state.epoch:
            self._reconcile(report)

    def _came_back(self, boot: str | None) -> None:
        """Its process says itself that it gave this boot up: it had lost touch, and nothing killed it."""
        grave = None if boot is None else self._state.workers.graves.get(boot)
        if boot is not None and grave is not None and not grave.harmless:
            grave.harmless = True
            self._returning.came_back(boot)

    def _bury(self, worker: Worker, *, harmless: bool = False) -> None:
        state = self._state
        state.workers.bury(worker, harmless=harmless)
        if worker.report.epoch < state.epoch and not harmless:
            for told in worker.report.held:
                if self._went_down(told):
                    self._adopt(worker.report, told)
        for held in self._state.held.of_boot(worker.boot):
            self._miss(held)

    def _went_down(self, told: Held) -> bool:
        """Whether an attempt of an earlier owner was lost with a worker that never answered this one, and it isn't noted."""
        state, tracked = self._state, self._state.tracked.get(told.id)
        before, held = state.retrying.get(told.id), state.held.of(told.id)
        return not (
            state.partitions.of(told.origin) is None
            or told.tier not in state.accounts.tiers
            or told.attempt in state.settled
            or state.is_finished(told.id, told.origin)
            or (before is not None and before.attempt >= told.attempt)
            or (tracked is not None and (tracked.phase is Phase.ENDING or tracked.last >= told.attempt))
            or (held is not None and not self._let_go_of_older(held, told))
        )

    def _let_go_of_older(self, held: HeldAttempt, told: Held) -> bool:
        """Drop what an earlier boot, dead by now, held of this request; whether that was so."""
        if held.attempt >= told.attempt or held.boot not in self._state.workers.graves:
            return False
        self._returning.let_go(held)
        return True

    def _answer_grave(self, report: Report) -> None:
        grave, state = self._state.workers.graves[report.boot], self._state
        tell_of_a_twin(state, report, grave)
        if state.now.boot_ms - grave.told_ms >= ms(state.setting.timings.repeat):
            grave.told_ms = state.now.boot_ms
            self._commands.bury(report.lane, report.boot)

    def _is_deaf(self, report: Report) -> bool:
        """Judged only while the log is read at its end: of an old report it would be a wrong word."""
        state, timings = self._state, self._state.setting.timings
        if state.now.boot_ms - self._ticked_ms > 3 * ms(timings.tick):
            return False
        unread = state.lanes.unread_since(report.lane, report.position)
        lane = [w.report.position for w in state.workers.live.values() if w.report.lane == report.lane]
        state.lanes.forget_read(report.lane, min(lane, default=report.position))
        return deaf_too_long(unread, state.now.boot_ms, ms(timings.deaf))

    def _reconcile(self, report: Report) -> None:
        listed = {held.id: held for held in report.held}
        for held in self._state.held.of_boot(report.boot):
            told = listed.get(held.id)
            if told is not None and told.attempt == held.attempt:
                self._update(held, told)
                del listed[held.id]
            elif held.offset is not None and held.offset < report.position:
                self._miss(held)
        for told in listed.values():
            self._unexpected(report, told)

    def _update(self, held: HeldAttempt, told: Held) -> None:
        """It is there; what it has spent beyond its charge is charged now."""
        held.absence = None
        self._state.missing.pop(held.id, None)
        held.tokens, held.running, held.reported = told.tokens, told.running, True
        tracked = self._state.tracked.get(held.id)
        prompt = 0 if tracked is None else tracked.record.prompt_tokens
        charge = raised_charge(held.charge, told.tokens, prompt, self._state.setting.pool_policy.cost)
        if charge > held.charge:
            self._state.accounts.recharge(held.tier, held.tenant, held.charge, charge)
            held.charge = charge

    def _miss(self, held: HeldAttempt) -> None:
        """Its outcome may be in `attempts`, but only before the end that is asked for now."""
        if held.absence is None:
            held.absence = Absence()
            self._state.missing[held.id] = held
            place = self._state.setting.place(TopicKind.ATTEMPTS, held.origin.partition)
            self._state.ends.want(place, partial(setattr, held.absence, "until"))

    def _unexpected(self, report: Report, told: Held) -> None:
        """An attempt that this owner didn't release to it, or believed gone."""
        state, tracked = self._state, self._state.tracked.get(told.id)
        if told.attempt in state.settled or state.partitions.of(told.origin) is None:
            return  # its outcome has been read: the report is older than that
        held = state.held.of(told.id)
        elsewhere = (held is not None and not self._let_go_of_older(held, told)) or (
            tracked is not None and tracked.phase is Phase.ENDING
        )
        if elsewhere or state.is_finished(told.id, told.origin):
            reason = CancelReason.SUPERSEDED
            self._commands.cancel(report.lane, report.boot, told.attempt, told.id, reason)
        elif told.attempt.epoch < state.epoch and told.tier in state.accounts.tiers:
            self._adopt(report, told)

    def _adopt(self, report: Report, told: Held) -> None:
        """Another owner released it; it goes on."""
        state, tracked = self._state, self._state.tracked.get(told.id)
        state.held.add(
            HeldAttempt(
                attempt=told.attempt,
                id=told.id,
                tenant=told.tenant,
                tier=told.tier,
                origin=told.origin,
                attempts=told.attempts,
                charge=told.charge,
                boot=report.boot,
                lane=report.lane,
                offset=-1,
                tokens=told.tokens,
                running=told.running,
                trial=told.trial,
                reported=True,
            )
        )
        state.cancels.wake(told.id)
        state.accounts.charge(told.tier, told.tenant, told.charge)
        if tracked is not None:
            if tracked.phase is Phase.WAITING:
                state.queue.take(tracked, Phase.HELD)
            tracked.phase, tracked.last = Phase.HELD, told.attempt
            state.expiries.put(tracked)
