"""How other pools stand, as their owners say each second in `queue-state`, and what was sent to them meanwhile.

Kept by core.falling_back. Invariant: only a fresh word of the highest epoch counts; what was sent so lately that it may not
be in their word yet counts as waiting there, so that many who go at once don't all find the same free place.
"""

from collections import deque
from collections.abc import Mapping
from datetime import timedelta

from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.contracts.observations import QueueState
from headrace.contracts.policy import SERVICE_UNIT
from headrace.scheduler.decisions.which_fallback import There

FRESH = timedelta(seconds=5)
_UNTOLD_MS = 3_000


class Elsewhere:
    """The pools that requests may go to."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], tuple[int, QueueState]] = {}
        self._sent: dict[tuple[str, str], deque[tuple[int, int]]] = {}

    def hear(self, state: QueueState, now: Now) -> None:
        """The word of a pool's owner on a tier."""
        key = (state.pool, state.tier)
        heard_ms, known = self._told.get(key, (0, None))
        newer = known is None or state.epoch >= known.epoch or now.boot_ms - heard_ms > ms(FRESH)
        if newer:
            self._told[key] = (now.boot_ms, state)

    def sent(self, pool: str, tier: str, cost: int, now: Now) -> None:
        """A request goes there, of this cost in micro service units."""
        self._sent.setdefault((pool, tier), deque()).append((now.boot_ms, cost))

    def of_tier(self, tier: str, contexts: Mapping[str, int | None], now: Now) -> dict[str, There]:
        """How these pools stand for requests of a tier. `contexts`: the context length of each, None where it isn't told."""
        return {pool: self._of(pool, tier, context_length, now) for pool, context_length in contexts.items()}

    def _of(self, pool: str, tier: str, context_length: int | None, now: Now) -> There:
        heard_ms, told = self._told.get((pool, tier), (0, None))
        if told is None or now.boot_ms - heard_ms > ms(FRESH) or now.wall_ms - told.as_of_ms > ms(FRESH):
            return There(None, takes=False, context_length=context_length)
        sent = self._sent.get((pool, tier), deque())
        while sent and now.boot_ms - sent[0][0] > _UNTOLD_MS:
            sent.popleft()
        takes = told.accepting and not told.frozen and told.limit > 0
        return There(self._wait_ms(told, sent), takes, context_length)

    def _wait_ms(self, told: QueueState, sent: deque[tuple[int, int]]) -> int | None:
        busy = sum(state.held for _, state in self._told.values() if state.pool == told.pool)
        if told.depth == 0 and busy + len(sent) < told.limit:
            return 0
        if told.served_milli == 0:
            return None
        backlog = told.backlog + sum(cost for _, cost in sent) // SERVICE_UNIT
        return backlog * 1_000_000 // told.served_milli
