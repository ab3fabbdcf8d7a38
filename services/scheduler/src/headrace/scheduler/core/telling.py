"""Writes `queue-state` each second: how each tier's queue stands, and the tenants that wait most in it. Called by PoolCore.

Invariant: reads the state and changes nothing; every record carries the epoch, so that readers keep the highest owner's
word; however many tenants wait, a record names a bounded number of them.
"""

from collections import Counter
from datetime import timedelta
from fractions import Fraction
from heapq import nlargest

from headrace.bus.messages import message_of
from headrace.contracts.durations import ms
from headrace.contracts.observations import MOST_TENANTS_TOLD, QueueState, TenantQueue
from headrace.contracts.policy import SERVICE_UNIT
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.rates import Rates
from headrace.scheduler.decisions.how_much_may_wait import may_wait, most_done, served_in_time
from headrace.scheduler.state.pace import Pace


class Telling:
    """The owner's word on its queues. `states`: the last one on each tier, for the metrics."""

    def __init__(self, state: PoolState, rates: Rates) -> None:
        self._state, self._rates = state, rates
        self._told_ms = -(10**12)
        self._in_flight: Counter[tuple[str, str]] = Counter()
        self._pace = Pace()
        self.states: dict[str, QueueState] = {}

    def tell(self) -> None:
        """Write it when it is due."""
        state = self._state
        if state.now.boot_ms - self._told_ms < ms(state.setting.timings.observe):
            return
        self._told_ms = state.now.boot_ms
        held, self._in_flight = Counter[str](), Counter()
        for attempt in state.held.all():
            held[attempt.tier] += 1
            self._in_flight[attempt.tier, attempt.tenant] += attempt.charge
        self._look()
        limit = sum(worker.report.limit for worker in state.workers.live.values() if worker.report.healthy)
        for tier in state.accounts.tiers:
            told = self.states[tier] = self._of(tier, held[tier], limit)
            key = f"{state.setting.pool}/{tier}".encode()
            state.send(message_of(state.setting.place(TopicKind.QUEUE_STATE), told, key=key))

    def _of(self, tier: str, held: int, limit: int) -> QueueState:
        state, waited = self._state, self._oldest_wait_ms(tier)
        paused = [p for p in state.partitions.by_place.values() if p.tier == tier and p.paused]
        waiting, fits = state.queue.backlog_of_tier(tier), self._fits(tier)
        return QueueState(
            pool=state.setting.pool,
            tier=tier,
            epoch=state.epoch,
            as_of_ms=state.now.wall_ms,
            depth=waiting.requests,
            oldest_wait_ms=waited,
            held=held,
            limit=limit,
            rate_milli=self._rates.rate_milli(),
            accepting=fits is None or waiting.cost <= fits,
            paused_partitions=len(paused),
            backlog=waiting.cost // SERVICE_UNIT,
            may_wait=None if fits is None else -(-fits // SERVICE_UNIT),
            served_milli=self._rates.of_tier(tier) * 1_000 // SERVICE_UNIT,
            spilled=state.spilled.count_of_tier(tier),
            frozen=state.queue.frozen.has_tier(tier),
            frozen_tenants=state.queue.frozen.tenants_of(tier)[:MOST_TENANTS_TOLD],
            frozen_depth=state.queue.frozen.frozen_depth(tier),
            paced_depth=state.queue.frozen.paced_depth(tier),
            tenants=self._tenants(tier),
        )

    def _oldest_wait_ms(self, tier: str) -> int:
        state, oldest = self._state, self._state.ages[tier].first()
        accepted = [] if oldest is None else [oldest.record.accepted_ms]
        spilled_ms = state.spilled.oldest_ms(tier)
        accepted += [] if spilled_ms is None else [spilled_ms]
        return max((0, *(state.now.wall_ms - each for each in accepted)))

    def _fits(self, tier: str) -> int | None:
        """The cost that may wait in a tier; None while it isn't known how fast the pool works."""
        state, in_flight = self._state, sum(cost for (of, _), cost in self._in_flight.items() if of == tier)
        part = max(self._part(state.served.of_tier(tier), in_flight), state.queue.share_of_tier(tier))
        return self._may_wait(tier, part, state.queue.backlog_of_tier(tier).cost)

    def _tenants(self, tier: str) -> tuple[TenantQueue, ...]:
        """Those that wait most for their weight; nobody while it isn't known what fits."""
        if self._pace.rate is None:
            return ()
        weight = self._state.accounts.weight_of
        backlogs = self._state.queue.backlogs(tier)
        most = nlargest(
            MOST_TENANTS_TOLD, backlogs, key=lambda name: (backlogs[name].cost / weight(name), name)
        )
        return tuple(self._tenant(tier, name, *backlogs[name]) for name in most)

    def _tenant(self, tier: str, tenant: str, requests: int, cost: int) -> TenantQueue:
        share = self._state.queue.share(tier, tenant)
        part = self._part(self._state.served.of_tenant(tier, tenant), self._in_flight[tier, tenant])
        fits = self._may_wait(tier, max(part, share), cost) or 0
        fair = served_in_time(self._pace.rate or Fraction(0), share, self._promised(tier))
        return TenantQueue(
            tenant=tenant,
            depth=requests,
            backlog=cost // SERVICE_UNIT,
            may_wait=-(-fits // SERVICE_UNIT),
            fair_share=-(-fair // SERVICE_UNIT),
            served_milli=self._rates.of_tenant(tier, tenant) * 1_000 // SERVICE_UNIT,
        )

    def _part(self, served: int, in_flight: int) -> Fraction:
        """What of the pool's work of the last half minute was this."""
        return Fraction(served + in_flight, max(1, self._state.served.total + self._in_flight.total()))

    def _may_wait(self, tier: str, part: Fraction, own: int) -> int | None:
        """The cost that may wait in a queue of which `own` waits; None while it isn't known how fast the pool works."""
        if self._pace.rate is None:
            return None
        others = self._state.queue.backlog_of_all().cost - own
        return may_wait(self._pace.rate, part, self._promised(tier), others=others)

    def _look(self) -> None:
        """How fast the pool works, and whether that is all it can do."""
        state, served = self._state, self._state.served
        rate = most_done(served.total, self._in_flight.total(), served.busy_ms)
        full = bool(self._in_flight) and state.queue.backlog_of_all().requests > 0
        self._pace.look(state.now.boot_ms, rate, full=full)

    def _promised(self, tier: str) -> timedelta:
        """The tier's promised wait."""
        return self._state.setting.policy.tiers[tier].queue_timeout
