"""Keeps the slots that a tier owns for it, and takes others back when it has waited too long. Called by core.releasing.

Invariant: nobody is stopped for a tier that could have a free slot, and no more attempts than that tier has waiting.
"""

from collections import Counter
from collections.abc import Callable, Set

from headrace.contracts.commands import CancelReason
from headrace.contracts.durations import ms
from headrace.scheduler.core import backend_pacing
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.room import room_at
from headrace.scheduler.decisions.what_is_lent import LONGEST, Share, closed_to, may_stay, safe
from headrace.scheduler.decisions.whom_to_preempt import MOST_TIMES, Running, stop_costs, whom_to_preempt
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Tracked
from headrace.scheduler.state.wanted import Wanted

_NONE: Set[str] = frozenset()


class Headroom:
    """The tiers with headroom."""

    def __init__(self, state: PoolState, commands: Commands) -> None:
        self._state, self._commands = state, commands
        self._free = self._slots = self._most_kept = 0
        self._since: dict[str, int] = {}
        self._wanted: dict[str, Wanted] = {}
        self.adopt()
        self._stopping: dict[str, tuple[HeldAttempt, str]] = {}
        """By request: the attempt that is being stopped, and for which tier."""

    def adopt(self) -> None:
        """Go by the policy that holds now. A tier that had headroom before keeps what is known of it."""
        tiers = self._state.setting.policy.tiers.items()
        self._percents = {name: tier.headroom_percent for name, tier in tiers if tier.headroom_percent}
        self._preemptible = {name for name, tier in tiers if tier.preemptible}
        self._wanted = {name: self._wanted.get(name, Wanted()) for name in self._percents}
        self._since = {name: since for name, since in self._since.items() if name in self._percents}

    def begin(self, free: int) -> None:
        """So many slots are free now, before anything is released."""
        self._free, self._slots = free, self._slots_with(free)
        owned = (-(-self._slots * percent // 100) for percent in self._percents.values())
        self._most_kept = sum(owned) + len(self._stopping)
        for tier, wanted in self._wanted.items():
            number = self._state.held.count_of_tier(tier) + self._state.queue.frozen.free_depth(tier)
            wanted.saw(self._state.now.boot_ms, number)

    def given(self) -> None:
        """One of them was."""
        self._free -= 1

    def closed(self) -> Set[str]:
        """The tiers that may have none of the free slots now."""
        if not self._percents or self._free > self._most_kept:
            return _NONE
        tiers, boot_ms = self._state.accounts.tiers, self._state.now.boot_ms
        return closed_to(tiers, self._shares(), free=self._free, slots=self._slots, boot_ms=boot_ms)

    def bars(self, tracked: Tracked) -> bool:
        """Whether a request that is next gets none of the free slots, since it was stopped too often to be stopped again."""
        if tracked.record.tier not in self._preemptible or self._times(tracked.id) < MOST_TIMES:
            return False
        may, run = self.staying
        return run >= may

    @property
    def staying(self) -> tuple[int, int]:
        """How many attempts that can't be stopped again may run, and how many do."""
        run = sum(1 for held in self._state.held.all() if self._stays(held))
        return max(0, may_stay(self._shares().values(), slots=self._slots)), run

    def kept_from(self, tier: str, free: int) -> int:
        """How many of so many free slots are kept for other tiers."""
        slots, boot_ms = self._slots_with(free), self._state.now.boot_ms
        others = (share for name, share in self._shares().items() if name != tier)
        return sum(share.kept(slots, boot_ms) for share in others)

    def turn(self) -> None:
        """All that could be released is: note who still waits, and take back what is owed for too long."""
        state = self._state
        gone = [name for name, (held, _) in self._stopping.items() if state.held.of(name) is not held]
        for request_id in gone:
            del self._stopping[request_id]
        for tier in self._percents:
            if state.queue.frozen.free_depth(tier):
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
        return {tier: self._share(tier, percent) for tier, percent in self._percents.items()}

    def _share(self, tier: str, percent: int) -> Share:
        state = self._state
        return Share(
            percent,
            state.held.count_of_tier(tier),
            wanted=self._wanted[tier].most(state.now.boot_ms),
            waiting=(waiting := state.queue.frozen.free_depth(tier)),
            part=state.accounts.tiers[tier].account.share,
            coming=min(self._stopping_for(tier), waiting),
            waiting_since_ms=self._since.get(tier),
        )

    def _above(self, tier: str, slots: int) -> int:
        """By how much it holds more than what is stopped for nobody's part."""
        return self._state.held.count_of_tier(tier) - safe(
            slots, self._state.accounts.tiers[tier].account.share
        )

    def _stopping_for(self, tier: str) -> int:
        return sum(1 for _, whom in self._stopping.values() if whom == tier)

    def _take_back(self, tier: str, share: Share) -> None:
        """First for the slots that it owns, from anybody; then for its part, from those who hold more than theirs."""
        asked = (self._slots, self._state.now.boot_ms)
        self._stop_for(tier, share.to_take_back(*asked), self._others)
        self._stop_for(tier, share.to_take_besides(*asked), self._above_their_part)

    def _stop_for(self, tier: str, owed: int, able: Callable[[str], list[HeldAttempt]]) -> None:
        """Until so many are being stopped for it. Mostly nothing is owed: then what runs isn't looked at."""
        state, number = self._state, owed - self._stopping_for(tier)
        if number <= 0:
            return
        for running in whom_to_preempt(map(self._running, able(tier)), number):
            held = state.held.of(running.id)
            if held is not None:
                self._stopping[running.id] = (held, tier)
                state.count(Counted.PREEMPTED)

    def _others(self, tier: str) -> list[HeldAttempt]:
        closed = backend_pacing.closed_boots(self._state)  # a slot there helps nobody
        return [
            held for held in self._state.held.all()
            if held.tier != tier and held.tier in self._preemptible
            and held.id not in self._stopping and held.absence is None and held.boot not in closed
        ]  # fmt: skip

    def _above_their_part(self, tier: str) -> list[HeldAttempt]:
        """Of each other tier what may be stopped before it holds no more than its own part: what is lost least by it."""
        able, stopping = self._others(tier), Counter(held.tier for held, _ in self._stopping.values())
        found = list[HeldAttempt]()
        for name in sorted({held.tier for held in able}):
            mine = {held.id: held for held in able if held.tier == name}
            above = self._above(name, self._slots) - stopping[name]
            found += [mine[each.id] for each in whom_to_preempt(map(self._running, mine.values()), above)]
        return found

    def _stays(self, held: HeldAttempt) -> bool:
        return held.tier in self._preemptible and self._times(held.id) >= MOST_TIMES

    def _times(self, request_id: str) -> int:
        before = self._state.retrying.get(request_id)
        return 0 if before is None else before.preempted

    def _costs(self, held: HeldAttempt) -> int:
        """An answer that is text alone is gone on with later; whether it can be for sure only its worker knows."""
        tracked = self._state.tracked.look(held.id)
        prompt, kept = (
            (0, False) if tracked is None else (tracked.record.prompt_tokens, tracked.record.plain_text)
        )
        return stop_costs(prompt, held.said + held.tokens, self._state.setting.pool_policy.cost, kept=kept)

    def _running(self, held: HeldAttempt) -> Running:
        return Running(
            attempt=held.attempt,
            id=held.id,
            costs=self._costs(held),
            times=self._times(held.id),
            preemptible=held.tier in self._preemptible,
            tried_apart=held.trial > 0,
        )
