"""How long a request will wait: in half of all cases, and in 19 of 20. Called by core.answering and core.quoting, and by
PoolCore at the end of each step.

Invariant: the rate tells about how long, and how far off such estimates were of late what is said of it; nothing but that is
kept, so that an answer changes nothing.
"""

from headrace.contracts.requests import RequestRecord
from headrace.scheduler.core import pacing
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.rates import Rates
from headrace.scheduler.decisions.estimate_wait import Likely, likely, wait_ms
from headrace.scheduler.state.ahead import Before
from headrace.scheduler.state.tracked import Phase


class _MayBeServed:
    """Those that are known, and that no operator holds back: how long these wait says nothing of the pool."""

    def __init__(self, state: PoolState) -> None:
        self._state = state

    def __contains__(self, request_id: str) -> bool:
        tracked, frozen = self._state.tracked, self._state.queue.frozen
        if not frozen.holds:
            return request_id in tracked
        found = tracked.look(request_id)
        return found is not None and not frozen.has(found.record.tier, found.record.tenant)


class Forecasting:
    """The owner's word on waits."""

    def __init__(self, state: PoolState, rates: Rates, estimating: Estimating) -> None:
        self._state, self._rates, self._estimating = state, rates, estimating
        self._may_be_served = _MayBeServed(state)

    def wait_of(self, record: RequestRecord, charge: int, own: Before) -> Likely:
        """Of one that waits for its turn behind so many of its tenant's."""
        expected = self._expected_ms(record, charge, own)
        return likely(expected, self._state.waits.of(record.tier, self._state.now.boot_ms))

    def at_once(self, record: RequestRecord, own: Before) -> Likely:
        """Of one that nobody goes before: only ceilings hold it back."""
        tokens = self._estimating.tokens_of(record)
        longest = likely(pacing.longest_ms(self._state, 0, record.tenant, own.requests, tokens), ()).p50_ms
        return Likely(longest, longest)

    def turn(self) -> None:
        """Note what is expected of the newest, if it waits, now and then. Call at the end of each step."""
        state = self._state
        newest, state.waits.newest = state.waits.newest, None
        if newest is None or not state.waits.is_due(state.now.boot_ms):
            return
        tracked = state.tracked.look(newest)
        if tracked is None or tracked.phase is not Phase.WAITING:
            return
        record = tracked.record
        expected = self._expected_ms(record, tracked.charge, state.queue.ahead_of(record, tracked.order))
        if expected is not None:
            known = self._may_be_served
            state.waits.note(newest, record.tier, expected, boot_ms=state.now.boot_ms, known=known)

    def _expected_ms(self, record: RequestRecord, charge: int, own: Before) -> int | None:
        """By what its tenant gets of the pool's work; None: nothing was served lately."""
        turn_ms = wait_ms(own.cost, charge, self._rates.of_tenant(record.tier, record.tenant))
        tokens = self._estimating.tokens_of(record)
        return pacing.longest_ms(self._state, turn_ms, record.tenant, own.requests, tokens)
