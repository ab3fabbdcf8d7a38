"""Says what would become of a request that came now, tier by tier. Called by core.answering for queries with a quote.

Invariant: reads the state and changes nothing: a quoted request is nowhere afterwards.
"""

import msgspec

from headrace.contracts.durations import ms
from headrace.contracts.explanations import Misses, Offer, Quote, Why
from headrace.contracts.requests import RequestRecord
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.explaining import Explaining
from headrace.scheduler.core.forecasting import Forecasting
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.room import room_at
from headrace.scheduler.decisions.estimate_wait import Likely
from headrace.scheduler.decisions.is_it_too_late import is_it_too_late, is_spared
from headrace.scheduler.decisions.pick_next import order_of
from headrace.scheduler.state.ahead import Before

_LAST = 2**53
"""An offset behind all that wait: among equals it came last."""


class Quoting:
    """The owner's offers."""

    def __init__(
        self, state: PoolState, forecasting: Forecasting, estimating: Estimating, explaining: Explaining
    ) -> None:
        self._state, self._forecasting = state, forecasting
        self._estimating, self._explaining = estimating, explaining

    def offers(self, quote: Quote) -> tuple[Offer, ...]:
        """One for each tier that the policy knows."""
        known = self._state.setting.policy.tiers
        return tuple(self._offer(self._in_tier(quote.request, tier)) for tier in quote.tiers if tier in known)

    def _offer(self, record: RequestRecord) -> Offer:
        order = order_of(record, _LAST, self._state.setting.policy.tiers[record.tier].queue_timeout)
        own = self._state.queue.ahead_of(record, order)
        why = self._explaining.of_waiting(record, own)
        wait, most = self._wait_of(record, own, why)
        misses = self._misses(record, wait or 0)
        feasible = False if misses is not None else None if wait is None else True
        return Offer(
            tier=record.tier, why=why, wait_ms=wait, wait_p95_ms=most, feasible=feasible, misses=misses
        )

    def _wait_of(self, record: RequestRecord, own: Before, why: Why) -> Likely:
        if not why.closed and why.ahead is not None and not why.ahead.tiers:
            return self._forecasting.at_once(record, own)
        return self._forecasting.wait_of(record, self._estimating.charge_of(record), own)

    def _misses(self, record: RequestRecord, wait: int) -> Misses | None:
        """What it wouldn't keep after so long a wait, by the rules that it would be ended by."""
        starts_ms = self._state.now.wall_ms + wait
        state = self._state
        spared = is_spared(
            waiting=state.queue.backlog(record.tier, record.tenant).requests + 1,
            in_flight=state.accounts.seen(record.tier, record.tenant).in_flight,
            slots=len(state.held) + sum(room_at(state, worker) for worker in state.workers.live.values()),
            part=state.queue.share(record.tier, record.tenant),
        )
        late = is_it_too_late(record.finish_by_ms, starts_ms, self._estimating.time_of(record), spared=spared)
        if late is not None:
            return Misses.DEADLINE
        waits_too_long = record.start_by_ms is not None and starts_ms >= record.start_by_ms
        return Misses.QUEUE_TIMEOUT if waits_too_long else None

    def _in_tier(self, record: RequestRecord, tier: str) -> RequestRecord:
        """The same in another tier, whose queue time-out counts there, unless its caller wants a shorter one."""
        if record.tier == tier or record.start_by_ms is None:
            return msgspec.structs.replace(record, tier=tier)
        tiers, waits_ms = self._state.setting.policy.tiers, record.start_by_ms - record.accepted_ms
        usual = tiers.get(record.tier)
        wanted_ms = [waits_ms] if usual is None or waits_ms < ms(usual.queue_timeout) else []
        start_by_ms = record.accepted_ms + min([ms(tiers[tier].queue_timeout), *wanted_ms])
        return msgspec.structs.replace(record, tier=tier, start_by_ms=start_by_ms)
