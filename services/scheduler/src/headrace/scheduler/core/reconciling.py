"""Compares what a worker reports with what it is believed to hold: what goes on, what is missing, what is no longer wanted.

Called by worker_log and PoolCore. Invariant: what is held but absent from a report of this epoch, or was held by a worker
that died, waits until `attempts` is read to an end noted after it; only then it goes back to the queue.
"""

from functools import partial

from headrace.contracts.commands import CancelReason
from headrace.contracts.reports import Held, Report
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import MOST_TOKENS
from headrace.scheduler.core import pacing
from headrace.scheduler.core.believing import prompt_of, tokens_so_far
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.routing import recall
from headrace.scheduler.decisions.estimate_cost import raised_charge
from headrace.scheduler.state.held import Absence, HeldAttempt
from headrace.scheduler.state.tracked import Phase
from headrace.scheduler.state.workers import Worker


class Reconciling:
    """What workers hold, as they say and as is believed."""

    def __init__(self, state: PoolState, returning: Returning, commands: Commands) -> None:
        self._state, self._returning, self._commands = state, returning, commands

    def reconcile(self, report: Report) -> None:
        """A report of this epoch is all that its worker holds."""
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

    def lost_with(self, worker: Worker, *, harmless: bool) -> None:
        """What a worker held that is dead now."""
        if worker.report.epoch < self._state.epoch and not harmless:
            for told in worker.report.held:
                if self._went_down(told):
                    self._adopt(worker.report, told)
        for held in self._state.held.of_boot(worker.boot):
            self._miss(held)

    def give_up_missing(self) -> None:
        """Those whose outcome would be known by now, had there been one, go back to the queue."""
        for held in list(self._state.missing.values()):
            read = self._state.attempts_read.get(held.origin.partition, 0)
            if held.absence is not None and held.absence.until is not None and read >= held.absence.until:
                self._lost(held)

    def _update(self, held: HeldAttempt, told: Held) -> None:
        """It is there; what it has spent beyond its charge is charged now."""
        held.absence = None
        self._state.missing.pop(held.id, None)
        tokens = tokens_so_far(self._state, held, told.tokens)
        if tokens != held.tokens:
            held.moved_ms = self._state.now.boot_ms
        held.tokens, held.running, held.reported = tokens, told.running, True
        prompt = prompt_of(self._state, held)
        cost = self._state.setting.pool_policy.cost
        charge = raised_charge(held.charge, tokens, prompt, cost, cached=held.cached)
        if charge > held.charge:
            self._state.accounts.recharge(held.tier, held.tenant, held.charge, charge, held.flow)
            held.charge = charge
        pacing.grew(self._state, held, prompt + tokens)

    def _miss(self, held: HeldAttempt) -> None:
        """Its outcome may be in `attempts`, but only before the end that is asked for now."""
        if held.absence is None:
            held.absence = Absence()
            self._state.missing[held.id] = held
            place = self._state.setting.place(TopicKind.ATTEMPTS, held.origin.partition)
            self._state.barriers.want(place, partial(setattr, held.absence, "until"))

    def _lost(self, held: HeldAttempt) -> None:
        grave = self._state.workers.graves.get(held.boot)
        self._state.count(Counted.ATTEMPTS_LOST)
        never_began = held.trial > 0 and not held.reported  # a trial is reported before it is begun
        if grave is not None and not grave.harmless and not never_began:
            self._returning.died(held, grave.worker)
        else:
            self._returning.unstarted(held)

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
        flow = None if tracked is None else state.queue.flow_of(tracked.record)
        held = HeldAttempt(
            attempt=told.attempt,
            id=told.id,
            tenant=told.tenant,
            tier=told.tier,
            origin=told.origin,
            attempts=told.attempts,
            charge=told.charge,
            expects=told.expects,
            boot=report.boot,
            lane=report.lane,
            offset=-1,
            tokens=told.tokens,
            running=told.running,
            trial=told.trial,
            reported=True,
            since_ms=state.now.boot_ms,
            flow=flow,
            said=told.before,
            cached=MOST_TOKENS,
        )
        state.held.add(held)
        pacing.found(state, held, report.worker)
        state.cancels.wake(told.id)
        state.accounts.charge(told.tier, told.tenant, told.charge, flow)
        if tracked is not None:
            if tracked.phase is Phase.WAITING:
                state.queue.take(tracked, Phase.HELD)
            tracked.phase, tracked.last = Phase.HELD, told.attempt
            recall(state, tracked.record, report.boot)
            state.expiries.put(tracked)

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
