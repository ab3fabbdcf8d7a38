"""Puts a request into a worker's hands. Called by core.releasing and core.quarantine.

Invariant: a release is an entry in memory and a `run` on the wire, charged to its tenant at once.
"""

from headrace.contracts.commands import Run
from headrace.contracts.kept_text import TEXT_HEADER
from headrace.scheduler.core import pacing
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.routing import Routing
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Phase, Tracked
from headrace.scheduler.state.workers import Worker


class Dispatching:
    """The way out."""

    def __init__(
        self, state: PoolState, commands: Commands, estimating: Estimating, holding: Holding, routing: Routing
    ) -> None:
        self._state, self._commands = state, commands
        self._estimating, self._holding, self._routing = estimating, holding, routing

    def run(self, tracked: Tracked, worker: Worker, *, trial: int = 0) -> None:
        """Into this worker's hands. `trial`: so many suspects run there now, and nothing else; 0: normal work."""
        state, record = self._state, tracked.record
        flow = state.queue.assign(tracked)
        if tracked.phase is Phase.WAITING:
            state.queue.take(tracked, Phase.HELD)
        expected, cached = self._routing.cached_at(record, worker.boot)
        tracked.phase, tracked.charge = Phase.HELD, self._estimating.charge_of(record, cached)
        attempt = state.next_attempt()
        tracked.last = attempt
        held = HeldAttempt(
            attempt=attempt,
            id=record.id,
            tenant=record.tenant,
            tier=record.tier,
            origin=tracked.origin,
            attempts=tracked.used + 1,
            charge=tracked.charge,
            boot=worker.boot,
            lane=worker.report.lane,
            trial=trial,
            since_ms=state.now.boot_ms,
            flow=flow,
            said=state.said(record.id),
            cached=cached,
            expected=expected,
            keeps=self._keeps(tracked, worker),
        )
        state.held.add(held)
        if state.ceilings or state.backend_ceilings:
            held.expects = self._estimating.tokens_of(record)
            pacing.released(state, held, worker.name)
        worker.given.append((attempt, held.expects))
        self._holding.released(tracked, held)
        self._routing.sent(record, held)
        state.retry_budgets.attempted(record.tenant, state.now.boot_ms)
        state.accounts.dispatch(record.tier, record.tenant, tracked.charge, flow)
        state.expiries.put(tracked)
        state.waits.started(record.id, state.now.boot_ms)
        self._send(tracked, held)

    def _send(self, tracked: Tracked, held: HeldAttempt) -> None:
        state, record = self._state, tracked.record
        run = Run(
            epoch=state.epoch,
            boot=held.boot,
            attempt=held.attempt,
            attempts=held.attempts,
            origin=held.origin,
            request=record,
            charge=held.charge,
            expects=held.expects,
            dispatched_ms=state.now.wall_ms,
            trial=held.trial,
            stoppable=held.keeps,
            text=state.text_of(record.id),
        )
        beside, text = tracked.trace, None if run.text is None else state.texts.of(record.id)
        if text is not None:
            beside = (*beside, (TEXT_HEADER, text))
            state.count(Counted.CONTINUED)
        waited_ms = max(0, state.now.wall_ms - record.accepted_ms)
        state.out.waits_ms.append((record.tier, waited_ms))
        state.count(Counted.RELEASED)
        self._commands.send(held.lane, run, held=held, value=tracked.value, trace=beside, waited_ms=waited_ms)

    def _keeps(self, tracked: Tracked, worker: Worker) -> bool:
        """Whether its slot may be taken back, or its place in a cache."""
        tiers = self._state.setting.policy.tiers
        if tiers[tracked.record.tier].preemptible and any(each.headroom_percent for each in tiers.values()):
            return True
        return tracked.record.plain_text and self._holding.may_want_back(tracked, worker)
