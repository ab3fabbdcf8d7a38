"""Looks for requests that are better served by another pool, by the policy's fallbacks. Driven by PoolCore.

Each request is looked at as it arrives, before it can be released, and what waits in memory each second. Invariant: it only
ever asks for a reroute; a pool without fallbacks looks at nothing, and where one pool is all there is nothing is read.
"""

from collections import defaultdict
from itertools import islice
from typing import NamedTuple

from headrace.bus.messages import Place, Received
from headrace.bus.ports import END
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.fallbacks import Fallback, model_there
from headrace.contracts.observations import QueueState
from headrace.contracts.policy import TenantPolicy
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core import pacing
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.rates import Rates
from headrace.scheduler.core.rerouting import Rerouting
from headrace.scheduler.decisions.estimate_wait import wait_ms
from headrace.scheduler.decisions.which_fallback import Here, There, which_fallback
from headrace.scheduler.state.elsewhere import Elsewhere
from headrace.scheduler.state.frozen import Hold
from headrace.scheduler.state.tracked import Phase, Tracked

_EACH_MS = 1_000
_LOOKS = 2_000
_ANYBODY = TenantPolicy()


class _View(NamedTuple):
    """How other pools stand; what a tenant is served per second here; how long there has been no backend."""

    there: dict[str, There]
    rate: int
    without_ms: int


class FallingBack:
    """The policy's fallbacks of one pool."""

    def __init__(self, state: PoolState, rerouting: Rerouting, estimating: Estimating, rates: Rates) -> None:
        self._state, self._rerouting = state, rerouting
        self._estimating, self._rates = estimating, rates
        self._elsewhere = Elsewhere()
        self._looked_ms = self._had_slots_ms = -(10**12)
        self._holds: frozenset[Hold] = frozenset()
        """Those of the last step."""

    @property
    def _fallbacks(self) -> tuple[Fallback, ...]:
        """As the policy says now."""
        return self._state.setting.pool_policy.fallbacks

    def places(self) -> dict[Place, int]:
        """What to read for it, and from where."""
        place = self._state.setting.place(TopicKind.QUEUE_STATE)
        return {place: END} if len(self._state.setting.policy.pools) > 1 else {}

    def read(self, received: Received) -> None:
        """One record of `queue-state`: what isn't the word of an owner on a pool that matters is passed over."""
        pool, _, _ = (received.key or b"").decode(errors="replace").partition("/")
        if all(pool != fallback.pool for fallback in self._fallbacks):
            return
        try:
            record = decode(TopicKind.QUEUE_STATE, received.header)
        except UndecodableError:
            return
        if isinstance(record, QueueState):
            self._elsewhere.hear(record, self._state.now)

    def turn(self) -> None:
        """Look at those who came, and each second at those who wait. Call past the gate, before anything is released."""
        state = self._state
        if not self._fallbacks:
            return
        self._note_slots()
        arrived, state.arrived = state.arrived, []
        for request_id in arrived:
            tracked = state.tracked.look(request_id)
            if tracked is not None and tracked.phase is Phase.WAITING:
                tier, tenant = tracked.record.tier, tracked.record.tenant
                backlog = state.queue.backlog(tier, tenant).cost
                self._consider(tracked, max(0, backlog - tracked.charge), self._view(tier, tenant))
        if state.now.boot_ms - self._looked_ms >= _EACH_MS or self._has_thawed():
            self._looked_ms = state.now.boot_ms
            self._look()

    def _has_thawed(self) -> bool:
        """Whether anything that nobody passed on while it was frozen may be released from now on."""
        holds, before = self._state.queue.frozen.holds, self._holds
        if holds != before:
            self._holds = frozenset(holds)
        return not before <= holds

    def _look(self) -> None:
        """At what waits in memory, in each tenant's order: whoever goes makes room for those behind it."""
        queues: defaultdict[tuple[str, str], list[Tracked]] = defaultdict(list)
        waiting = (each for each in self._state.tracked.values() if each.phase is Phase.WAITING)
        for tracked in islice(waiting, _LOOKS):
            queues[tracked.record.tier, tracked.record.tenant].append(tracked)
        for (tier, tenant), queue in queues.items():
            ahead, view = 0, self._view(tier, tenant)
            for tracked in sorted(queue, key=lambda each: each.order):
                if not self._consider(tracked, ahead, view):
                    ahead += tracked.charge
                else:
                    view = self._view(tier, tenant)

    def _view(self, tier: str, tenant: str) -> _View:
        """What is the same for all requests of a tenant in a tier, until one of them goes."""
        state = self._state
        if state.queue.frozen.has(tier, tenant) or not self._may_leave(tenant):
            return _View({}, 0, 0)
        pools = state.setting.policy.pools
        contexts = {each.pool: pools[each.pool].context_length for each in self._fallbacks}
        there = self._elsewhere.of_tier(tier, contexts, state.now)
        without_ms = state.now.boot_ms - self._had_slots_ms
        return _View(there, self._rates.of_tenant(tier, tenant), without_ms)

    def _may_leave(self, tenant: str) -> bool:
        return self._state.setting.policy.tenants.get(tenant, _ANYBODY).fallbacks

    def _consider(self, tracked: Tracked, ahead: int, view: _View) -> bool:
        """Whether it goes. `ahead`: the cost of what of its tenant runs before it."""
        record, state = tracked.record, self._state
        here = self._here(tracked, ahead, view)
        fallback = which_fallback(record, self._fallbacks, here, view.there, state.now.wall_ms)
        if fallback is None:
            return False
        if not self._rerouting.may(tracked, fallback.pool):
            possible = [each for each in self._fallbacks if self._rerouting.may(tracked, each.pool)]
            fallback = which_fallback(record, possible, here, view.there, state.now.wall_ms)
        return fallback is not None and self._begin(tracked, fallback)

    def _begin(self, tracked: Tracked, fallback: Fallback) -> bool:
        state, record = self._state, tracked.record
        models = state.setting.policy.pools[fallback.pool].models
        model = model_there(models, record.model, fallback.model)
        whole = state.tracked.get(tracked.id)  # a spilled one was only looked at
        if model is None or whole is None or not self._rerouting.begin(whole, fallback.pool, model):
            return False
        self._elsewhere.sent(fallback.pool, record.tier, whole.charge, state.now)
        return True

    def _here(self, tracked: Tracked, ahead: int, view: _View) -> Here:
        state, record = self._state, tracked.record
        takes = None if record.finish_by_ms is None else self._estimating.time_of(record)
        turn_ms = wait_ms(ahead, tracked.charge, view.rate)
        return Here(
            waited_ms=max(0, state.now.wall_ms - record.accepted_ms),
            wait_ms=pacing.longest_ms(state, turn_ms, record.tenant, requests=0, tokens=0),
            without_ms=view.without_ms,
            answer_ms=None if takes is None else takes.answer_ms,
            cost=tracked.charge,
            context_length=self._context_length(),
            paced=record.tenant in state.queue.frozen.paced,
        )

    def _context_length(self) -> int | None:
        """As the policy or a backend says, whichever is less."""
        told = self._state.setting.pool_policy.context_length, self._estimating.told_context
        return min((each for each in told if each is not None), default=None)

    def _note_slots(self) -> None:
        state = self._state
        reports = (worker.report for worker in state.workers.live.values())
        has = any(report.healthy and report.limit and not report.draining for report in reports)
        # an owner that has just come knows of no backend only since then
        since_ms = state.now.boot_ms if has else max(self._had_slots_ms, state.claimed.boot_ms)
        self._had_slots_ms = since_ms
