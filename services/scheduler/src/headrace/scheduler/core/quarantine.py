"""Tries suspects where nothing else runs: sets one worker apart, waits until it is empty, and releases the next trial there.

Called by core.releasing in each step. Invariant: one trial at a time in the whole pool; while there is one, or one is due,
its worker gets nothing else; the only worker of a pool goes back to other work in between.
"""

import msgspec

from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.dispatching import Dispatching
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.room import room_at
from headrace.scheduler.decisions.who_runs_alone import (
    TOGETHER,
    is_turn_over,
    may_begin,
    next_turn,
    parts_of,
)
from headrace.scheduler.state.suspects import Apart
from headrace.scheduler.state.tracked import Phase, Tracked
from headrace.scheduler.state.workers import Worker


class Quarantine:
    """The worker that is set apart."""

    def __init__(self, state: PoolState, dispatching: Dispatching) -> None:
        self._state, self._dispatching = state, dispatching

    @property
    def boot(self) -> str | None:
        """The boot that gets no normal work now."""
        apart = self._state.suspects.apart
        return None if apart is None else apart.boot

    def turn(self) -> None:
        """Go on with the search for killers, if there is one."""
        suspects = self._state.suspects
        if (not suspects.groups and suspects.apart is None) or self._state.ceilings.pool_is_closed:
            return
        trial = next((held for held in self._state.held.all() if held.trial), None)
        if trial is not None:
            if self.boot != trial.boot:
                suspects.apart = Apart(trial.boot, self._state.now.boot_ms, 1)
            return
        due = self._due()
        able = [w for w in self._state.workers.live.values() if room_at(self._state, w, held=0) > 0]
        worker = self._worker(able, due)
        if worker is not None and not self._state.held.count_of(worker.boot):
            self._begin(due, worker)

    def _due(self) -> list[Tracked]:
        """Who is to be tried next: of the group of the latest death, all who may run now."""
        suspects = self._state.suspects
        for group in sorted(suspects.groups, key=lambda group: (-suspects.begun_ms(group), group)):
            found = [tracked for request in suspects.groups[group] if (tracked := self._ready(request))]
            if found:
                return sorted(found, key=lambda tracked: tracked.id)
        return []

    def _ready(self, request_id: str) -> Tracked | None:
        tracked = self._state.tracked.get(request_id)
        if tracked is None or tracked.phase is not Phase.DELAYED or not tracked.whole:
            return None
        if self._state.queue.frozen.bars(tracked.record.tier, tracked.record.tenant):
            return None
        return tracked if tracked.due_boot_ms <= self._state.now.boot_ms else None

    def _worker(self, able: list[Worker], due: list[Tracked]) -> Worker | None:
        """The worker that is set apart; chosen, kept or let go as things are now."""
        state, suspects, now_ms = self._state, self._state.suspects, self._state.now.boot_ms
        apart, waits = suspects.apart, any(map(state.queue.frozen.free_depth, state.accounts.tiers))
        if apart is not None:
            worker = next((each for each in able if each.boot == apart.boot), None)
            over = is_turn_over(
                workers=len(able),
                work_waits=waits,
                since_ms=apart.since_ms,
                boot_ms=now_ms,
                longest=suspects.longest_turn,
            )
            if worker is not None and due and not over:
                return worker
            if over:
                suspects.longest_turn = next_turn(suspects.longest_turn, trials=apart.trials)
            suspects.apart = None
            suspects.rest_until_ms = 2 * now_ms - apart.since_ms
            return None
        if not due or not may_begin(
            workers=len(able), work_waits=waits, rest_until_ms=suspects.rest_until_ms, boot_ms=now_ms
        ):
            return None
        chosen = min(able, key=self._preference)
        suspects.apart = Apart(chosen.boot, now_ms)
        return chosen

    def _preference(self, worker: Worker) -> tuple[bool, int, str]:
        """One that has done well lately, so that a death there says something; then the emptiest."""
        unproved = worker.name not in self._state.suspects.did_well
        return (unproved, self._state.held.count_of(worker.boot), worker.boot)

    def _begin(self, due: list[Tracked], worker: Worker) -> None:
        suspects = self._state.suspects
        together = self._part_of(due, worker)
        if suspects.apart is not None:
            suspects.apart.trials += 1
        self._state.count(Counted.TRIALS)
        for tracked in together:
            self._dispatching.run(tracked, worker, trial=len(together))

    def _part_of(self, due: list[Tracked], worker: Worker) -> list[Tracked]:
        """Who of them runs now. A group too large to be tried one by one is divided for good."""
        suspects, limit = self._state.suspects, room_at(self._state, worker, held=0)
        group = suspects.group_of[due[0].id]
        if TOGETHER in group:
            return due[:limit]
        parts = parts_of([tracked.id for tracked in due], limit)
        if len(parts[0]) > 1:
            for number, part in enumerate(parts):
                for request_id in part:
                    self._regroup(request_id, f"{group}{TOGETHER}{number}")
        return due[: len(parts[0])]

    def _regroup(self, request_id: str, group: str) -> None:
        state = self._state
        state.suspects.join(request_id, group)
        state.retrying[request_id] = msgspec.structs.replace(state.retrying[request_id], group=group)
        state.dirty.add(f"retrying/{request_id}")
