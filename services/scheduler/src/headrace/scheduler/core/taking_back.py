"""Takes back from an engine whose cache thrashes what only stands there. Called by core.releasing at the end of each release.

A lower limit stops what would come, not what is there. What is taken back goes on later from its text, here or at another
backend. Invariant: as decisions.whom_to_take_back; and nobody who reads a stream is shown that his answer begins anew.
"""

from headrace.contracts.commands import CancelReason
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.does_its_cache_thrash import after_remedy
from headrace.scheduler.decisions.whom_to_take_back import STANDS_MS, Inside, whom_to_take_back
from headrace.scheduler.state.backend_limits import BackendLimits
from headrace.scheduler.state.held import HeldAttempt


class TakingBack:
    """Of all backends."""

    def __init__(self, state: PoolState, commands: Commands, holding: Holding) -> None:
        self._state, self._commands, self._holding = state, commands, holding
        self._stopping: dict[str, HeldAttempt] = {}
        """By request."""

    def turn(self) -> None:
        """Stop what is to be stopped, until it has ended."""
        held = self._state.held
        if self._stopping:
            self._stopping = {name: each for name, each in self._stopping.items() if held.of(name) is each}
        for boot, limits in self._state.limits.items():
            if limits.over_cache:
                self._take_back(boot, limits, limits.over_cache)
        for each in self._stopping.values():
            self._commands.cancel_held(each, CancelReason.PREEMPTED)

    def _take_back(self, boot: str, limits: BackendLimits, over: int) -> None:
        state, there = self._state, {each.id: each for each in self._state.held.of_boot(boot)}
        inside = [self._inside(each, limits) for each in there.values() if each.id not in self._stopping]
        chosen = whom_to_take_back(
            inside,
            over=over,
            kv_tokens=limits.kv_tokens or 0,
            ends=limits.latencies.rate_milli(state.now.boot_ms) > 0,
        )
        if not chosen:
            return
        limits.thrash = after_remedy(state.now.boot_ms)
        self._stopping.update((each.id, there[each.id]) for each in chosen)
        state.count(Counted.TAKEN_BACK, len(chosen))
        worker = state.workers.by_boot(boot)
        name = boot if worker is None else worker.name
        tokens = sum(each.tokens for each in chosen)
        state.notice(
            "a backend computes long prompts again and again, so some are taken back", warning=True, worker=name,
            taken_back=len(chosen), tokens=tokens,
        )  # fmt: skip

    def _inside(self, held: HeldAttempt, limits: BackendLimits) -> Inside:
        before = self._state.retrying.get(held.id)
        return Inside(
            held.attempt,
            held.id,
            limits.loads.so_far_of(held.id),
            self._still_ms(held, limits),
            goes_on=self._goes_on(held),
            stopped=before is not None and (before.preempted > 0 or before.text is not None),
        )

    def _still_ms(self, held: HeldAttempt, limits: BackendLimits) -> int | None:
        if held.tokens:
            return self._state.now.boot_ms - max(held.since_ms, held.moved_ms)
        return STANDS_MS if self._holding.is_late(held, limits) else None

    def _goes_on(self, held: HeldAttempt) -> bool:
        """Whether it can go on from its text, or has none; and nobody reads along who would have to begin anew."""
        tracked = self._state.tracked.get(held.id)
        if tracked is None or held.trial or held.absence is not None or not held.running:
            return False
        if not held.tokens:
            return True
        tier = self._state.setting.policy.tiers.get(held.tier)
        may_begin_anew = not tracked.record.stream or (tier is not None and tier.preemptible)
        return held.keeps and tracked.record.plain_text and may_begin_anew
