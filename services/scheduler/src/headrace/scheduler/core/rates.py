"""How fast the pool works: what it completed and settled in the last half minute. Used by core.answering and core.telling.

Invariant: reads the state and changes nothing of it but the passing of time in `served`.
"""

from collections import deque

from headrace.contracts.durations import ms
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_wait import WINDOW, expected_rate, per_second, rate_milli_of


class Rates:
    """The pool's rates now."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._began_ms: int | None = None
        self._completed: deque[tuple[int, int]] = deque()

    def completed(self, count: int) -> None:
        """So many requests were finished in this step. Call in each step."""
        now = self._state.now.boot_ms
        self._state.served.passed(now, at_work=bool(self._state.tracked))
        self._began_ms = now if self._began_ms is None else self._began_ms
        if count:
            self._completed.append((now, count))
        while self._completed and self._completed[0][0] <= now - ms(WINDOW):
            self._completed.popleft()

    def rate_milli(self) -> int:
        """Completions per 1,000 s over the last 30 s, or over what there has been of them."""
        began = self._state.now.boot_ms if self._began_ms is None else self._began_ms
        over_ms = min(ms(WINDOW), max(1_000, self._state.now.boot_ms - began))
        return rate_milli_of(sum(count for _, count in self._completed), over_ms)

    def of_tier(self, tier: str) -> int:
        """What a tier was served per second, in micro service units."""
        served = self._state.served
        return per_second(served.of_tier(tier), served.busy_ms)

    def of_pool(self) -> int:
        """What the pool served per second, in micro service units."""
        return per_second(self._state.served.total, self._state.served.busy_ms)

    def of_tenant(self, tier: str, tenant: str) -> int:
        """What a tenant is expected to be served per second in a tier, in micro service units."""
        own = self.served_by_tenant(tier, tenant)
        return expected_rate(own, self.of_pool(), self._state.queue.share(tier, tenant))

    def served_by_tenant(self, tier: str, tenant: str) -> int:
        """What it was served per second."""
        served = self._state.served
        return per_second(served.of_tenant(tier, tenant), served.busy_ms)
