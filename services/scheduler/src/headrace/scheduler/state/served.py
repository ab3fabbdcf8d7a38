"""What was settled lately, by tenant, by tier and in all, and how long the pool had work meanwhile. Used by the core.

Invariant: what is older than the window counts no more, and a tenant that rests takes no memory. Not checkpointed: a new
owner knows no rate until something is settled.
"""

from collections import Counter, deque

from headrace.contracts.durations import ms
from headrace.scheduler.decisions.estimate_wait import WINDOW

_WINDOW_MS = ms(WINDOW)
_Key = tuple[str, str]


class Served:
    """The pool's work of the last half minute, in micro service units. Instants are ms since boot, and never fall."""

    def __init__(self) -> None:
        self._entries: deque[tuple[int, _Key, int]] = deque()
        self._of_tenant: Counter[_Key] = Counter()
        self._of_tier: Counter[str] = Counter()
        self._total = 0
        self._busy: deque[list[int]] = deque()
        self._busy_ms = 0
        self._looked_ms: int | None = None

    def settled(self, tier: str, tenant: str, cost: int, boot_ms: int) -> None:
        """So much was spent for this tenant."""
        self._add((tier, tenant), cost)
        self._entries.append((boot_ms, (tier, tenant), cost))

    def passed(self, boot_ms: int, *, at_work: bool) -> None:
        """Time has passed since the last call, in which the pool had requests that wait or run, or none at all."""
        spent_ms = 0 if self._looked_ms is None or not at_work else boot_ms - self._looked_ms
        self._looked_ms = boot_ms
        second = boot_ms // 1000
        if spent_ms and self._busy and self._busy[-1][0] == second:
            self._busy[-1][1] += spent_ms
        elif spent_ms:
            self._busy.append([second, spent_ms])
        self._busy_ms += spent_ms
        while self._busy and self._busy[0][0] * 1000 <= boot_ms - _WINDOW_MS:
            self._busy_ms -= self._busy.popleft()[1]
        while self._entries and self._entries[0][0] <= boot_ms - _WINDOW_MS:
            _, key, cost = self._entries.popleft()
            self._add(key, -cost)

    @property
    def busy_ms(self) -> int:
        """How long of the window the pool had work: while it had none, nothing could be settled. At least a second."""
        return min(_WINDOW_MS, max(1_000, self._busy_ms))

    @property
    def total(self) -> int:
        """Settled in all."""
        return self._total

    def of_tier(self, tier: str) -> int:
        """Settled for all tenants of a tier."""
        return self._of_tier[tier]

    def of_tenant(self, tier: str, tenant: str) -> int:
        """Settled for one tenant in a tier."""
        return self._of_tenant[tier, tenant]

    def _add(self, key: _Key, cost: int) -> None:
        self._total += cost
        self._of_tier[key[0]] += cost
        self._of_tenant[key] += cost
        if not self._of_tenant[key]:
            del self._of_tenant[key]
