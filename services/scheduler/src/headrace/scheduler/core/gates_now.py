"""Looks at what stands between a request and a worker now. Called by core.explaining.

Invariant: reads the state and changes nothing; it looks where releasing looks, so that both say the same.
"""

from headrace.contracts.explanations import Closed, Gate
from headrace.contracts.values import LATEST_MS
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.headroom import Headroom
from headrace.scheduler.core.leaving import Leaving
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.quarantine import Quarantine
from headrace.scheduler.core.releasing import Releasing
from headrace.scheduler.core.room import is_ready
from headrace.scheduler.decisions.pick_next import most_in_flight
from headrace.scheduler.decisions.which_gate_is_closed import Gates, Over, Slots, which_gates
from headrace.scheduler.state.ceilings import Ceilings
from headrace.scheduler.state.tracked import Phase, Tracked
from headrace.scheduler.state.workers import Worker


class GatesNow:
    """The gates of one pool."""

    def __init__(
        self,
        state: PoolState,
        *,
        commands: Commands,
        headroom: Headroom,
        quarantine: Quarantine,
        releasing: Releasing,
        leaving: Leaving,
    ) -> None:
        self._state, self._commands, self._headroom = state, commands, headroom
        self._quarantine, self._releasing, self._leaving = quarantine, releasing, leaving

    def of(self, tier: str, tenant: str, tracked: Tracked | None = None) -> tuple[Closed, ...]:
        """Those that are closed to a request that waits, or to one that came now (`tracked` None)."""
        state = self._state
        workers = [self._slots_of(worker) for worker in state.workers.live.values()]
        free = sum(worker.room for worker in workers)
        waits = state.queue.backlog(tier, tenant).requests
        return which_gates(
            Gates(
                workers,
                leaving=self._leaving.under_way,
                frozen=state.queue.frozen.has(tier, tenant),
                stalled=state.now.boot_ms < self._commands.breathless_until_ms,
                pool_ceiling=self._over(state.ceilings, None),
                ceiling=self._over(state.ceilings, tenant),
                suspect=tracked is not None and tracked.id in state.suspects.group_of,
                due_ms=self._due_ms(tracked),
                kept=self._headroom.kept_from(tier, free),
                staying=self._headroom.staying if tier in self._releasing.barred else None,
                in_flight=state.accounts.seen(tier, tenant).in_flight,
                most_in_flight=self._most(tier, tenant, len(state.held) + free),
                reading_again=bool(waits) and not state.queue.next_is_here(tier, tenant),
                cache=self._cache() if self._releasing.fits_nowhere else None,
            )
        )

    def of_unknown(self) -> tuple[Closed, ...]:
        """To a request that its owner doesn't know."""
        return (Closed(gate=Gate.UNREAD if self._state.open else Gate.RECOVERING),)

    def _slots_of(self, worker: Worker) -> Slots:
        limits, held = self._state.limits.get(worker.boot), self._state.held.count_of(worker.boot)
        return Slots(
            worker.report.limit,
            held,
            learned=None if limits is None else limits.limit,
            ready=is_ready(self._state, worker),
            apart=worker.boot == self._quarantine.boot,
            over=self._spared(worker.name) or self._over(self._state.backend_ceilings, worker.name),
        )

    def _over(self, ceilings: Ceilings, whose: str | None) -> Over | None:
        """The ceiling that keeps a tenant, the pool, or a backend back the longest."""
        now, ceiling = self._state.now, ceilings.closest(whose)
        if ceiling is None:
            return None
        opens_ms = now.wall_ms + max(0, ceilings.closed[whose] - now.boot_ms)
        return Over(ceiling.amount, min(opens_ms, LATEST_MS))

    def _spared(self, worker: str) -> Over | None:
        """Until when its backend has asked for nothing more, or has nothing left."""
        now, until_ms = self._state.now, self._state.backend_ceilings.until_ms(worker)
        return None if until_ms is None else Over(None, now.wall_ms + max(0, until_ms - now.boot_ms))

    def _due_ms(self, tracked: Tracked | None) -> int | None:
        """By the wall clock, as it is shown to people."""
        now = self._state.now
        if tracked is None or tracked.phase is not Phase.DELAYED or tracked.due_boot_ms <= now.boot_ms:
            return None
        return now.wall_ms + tracked.due_boot_ms - now.boot_ms

    def _most(self, tier: str, tenant: str, slots: int) -> int | None:
        """K_i, where anybody else of its tier waits."""
        own, others = self._state.accounts.weight_of(tenant), self._state.queue.others_weight(tier, tenant)
        return most_in_flight(own, others + own, slots) if others else None

    def _cache(self) -> tuple[int, int]:
        """(what may be promised, what is) of all caches together whose size is known."""
        known = [
            (kv_tokens * limits.theta.percent // 100, limits.loads.peak)
            for limits in self._state.limits.values() if (kv_tokens := limits.kv_tokens) is not None
        ]  # fmt: skip
        return sum(may for may, _ in known), sum(peak for _, peak in known)
