"""Keeps the slots that a tier owns for it, and takes lent ones back when it has waited too long. Called by core.releasing.

Invariant: nobody is stopped for a tier that could have a free slot, and no more attempts than that tier has waiting.
"""

from collections.abc import Set

from headrace.contracts.commands import CancelReason
from headrace.contracts.durations import ms
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.quarantine import room_at
from headrace.scheduler.decisions.what_is_lent import LONGEST, Share, closed_to
from headrace.scheduler.decisions.whom_to_preempt import Running, whom_to_preempt
from headrace.scheduler.state.held import HeldAttempt

_NONE: Set[str] = frozenset()


class Headroom:
    """The tiers with headroom."""

    def __init__(self, state: PoolState, commands: Commands) -> None:
        self._state, self._commands = state, commands
        tiers = state.setting.policy.tiers.items()
        self._percents = {name: tier.headroom_percent for name, tier in tiers if tier.headroom_percent}
        self._preemptible = {name for name, tier in tiers if tier.preemptible}
        self._free = self._slots = 0
        self._since: dict[str, int] = {}
        self._stopping: dict[str, tuple[HeldAttempt, str]] = {}
        """By request: the attempt that is being stopped, and for which tier."""

    def begin(self, free: int) -> None:
        """So many slots are free now, before anything is released."""
        self._free, self._slots = free, self._slots_with(free)

    def given(self) -> None:
        """One of them was."""
        self._free -= 1

    def closed(self) -> Set[str]:
        """The tiers that may have none of the free slots now."""
        if not self._percents:
            return _NONE
        tiers, boot_ms = self._state.accounts.tiers, self._state.now.boot_ms
        return closed_to(tiers, self._shares(), free=self._free, slots=self._slots, boot_ms=boot_ms)

    def kept_from(self, tier: str, free: int) -> int:
        """How many of so many free slots other tiers own."""
        slots, boot_ms = self._slots_with(free), self._state.now.boot_ms
        others = (share for name, share in self._shares().items() if name != tier)
        return sum(max(0, share.owned(slots, boot_ms) - share.held) for share in others)

    def turn(self) -> None:
        """All that could be released is: note who still waits, and take back what is owed for too long."""
        state = self._state
        gone = [name for name, (held, _) in self._stopping.items() if state.held.of(name) is not held]
        for request_id in gone:
            del self._stopping[request_id]
        for tier in self._percents:
            if state.queue.depth(tier):
                self._since.setdefault(tier, state.now.boot_ms)
            else:
                self._since.pop(tier, None)
        for tier, share in self._shares().items():
            self._take_back(tier, share)
        for held, _ in self._stopping.values():
            self._commands.cancel_held(held, CancelReason.PREEMPTED)

    @property
    def next_ms(self) -> int | None:
        """When (ms since boot) a tier will have waited too long; None: none waits."""
        return min(self._since.values()) + ms(LONGEST) if self._since else None

    def _slots_with(self, free: int) -> int:
        state = self._state
        able = (worker for worker in state.workers.live.values() if room_at(state, worker, held=0) > 0)
        return free + sum(state.held.count_of(worker.boot) for worker in able)

    def _shares(self) -> dict[str, Share]:
        count = self._state.held.count_of_tier
        return {tier: Share(of, count(tier), self._since.get(tier)) for tier, of in self._percents.items()}

    def _take_back(self, tier: str, share: Share) -> None:
        state = self._state
        owed = share.to_take_back(self._slots, state.queue.depth(tier), state.now.boot_ms)
        owed -= sum(1 for _, whom in self._stopping.values() if whom == tier)
        if owed <= 0:
            return
        for running in whom_to_preempt(map(self._running, self._others(tier)), owed):
            held = state.held.of(running.id)
            if held is not None:
                self._stopping[running.id] = (held, tier)
                state.count(Counted.PREEMPTED)

    def _others(self, tier: str) -> list[HeldAttempt]:
        return [
            held for held in self._state.held.all()
            if held.tier != tier and held.tier in self._preemptible
            and held.id not in self._stopping and held.absence is None
        ]  # fmt: skip

    def _running(self, held: HeldAttempt) -> Running:
        before = self._state.retrying.get(held.id)
        return Running(
            attempt=held.attempt,
            id=held.id,
            tokens=held.tokens,
            times=0 if before is None else before.preempted,
            preemptible=held.tier in self._preemptible,
            tried_apart=held.trial > 0,
        )
