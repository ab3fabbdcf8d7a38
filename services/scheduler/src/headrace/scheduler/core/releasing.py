"""Releases requests to workers: as many as have room, in fair order. Called by PoolCore at the end of each step.

Invariant: what has expired, was cancelled or can't be in time is ended instead, without a charge; the worker set apart for
suspects gets nothing from here.
"""

from collections.abc import Set
from heapq import heapify, heappop, heappush, heapreplace

from headrace.contracts.failures import FailureKind, rule_of
from headrace.scheduler.core import backend_pacing
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.dispatching import Dispatching
from headrace.scheduler.core.endings import MOST_ENDINGS, Endings
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.headroom import Headroom
from headrace.scheduler.core.holding import Holding
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.quarantine import Quarantine
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.core.room import room_at
from headrace.scheduler.core.routing import Roomy, Routing
from headrace.scheduler.core.taking_back import TakingBack
from headrace.scheduler.core.walking import facts_of
from headrace.scheduler.decisions.is_it_too_late import is_it_too_late, is_spared
from headrace.scheduler.decisions.when_expired import expired_as
from headrace.scheduler.decisions.which_backend import Candidate, load_of
from headrace.scheduler.state.tracked import Phase, Tracked

MOST_DROPS = 32
"""For one slot, in one step: a queue of many that are too late must not hold up reports and answers."""


class Releasing:
    """Fills the slots."""

    def __init__(
        self,
        state: PoolState,
        commands: Commands,
        endings: Endings,
        *,
        returning: Returning,
        quarantine: Quarantine,
        dispatching: Dispatching,
        headroom: Headroom,
        holding: Holding,
        estimating: Estimating,
        routing: Routing,
        taking_back: TakingBack,
    ) -> None:
        self._state, self._commands, self._endings = state, commands, endings
        self._returning, self._quarantine, self._dispatching = returning, quarantine, dispatching
        self._headroom, self._holding, self._estimating = headroom, holding, estimating
        self._routing, self._taking_back = routing, taking_back
        self._fits_nowhere = False
        self.barred: Set[str] = frozenset()
        """Tiers whose next was stopped too often to be stopped again, and has to wait for that."""

    @property
    def fits_nowhere(self) -> bool:
        """Whether the next in line fits no cache of a worker with room, so that nobody is released."""
        return self._fits_nowhere

    def expire(self) -> None:
        """End what has waited too long, wherever in the queue it stands; tell the workers of what is late."""
        state = self._state
        room = max(0, MOST_ENDINGS - len(self._endings))
        spilled = (state.tracked[each] for each in state.spilled.due(state.now.wall_ms, room))
        for tracked in (*state.expiries.due(state.now.wall_ms), *spilled):
            if tracked.phase is Phase.HELD:
                state.overdue.add(tracked.id)
                continue
            kind = expired_as(tracked.start_by_ms, tracked.record.finish_by_ms, state.now.wall_ms)
            if kind is not None:
                self._endings.expire(tracked, kind)

    def wake_delayed(self) -> None:
        """Let those wait whose next try is due."""
        for tracked in self._state.delays.due(self._state.now.boot_ms):
            self._returning.may_run(tracked)

    def release(self) -> bool:
        """Give work to whoever has room, until there is no work or no room; suspects first, apart from all others.

        Returns whether it stopped although there may be room and work: so come back at once.
        """
        self._quarantine.turn()
        self._fits_nowhere, self.barred = False, frozenset()
        if self._state.now.boot_ms < self._commands.breathless_until_ms:
            return False
        workers = self._with_room()
        self._headroom.begin(sum(candidate.room for _, candidate, _ in workers))
        unfinished = self._fill(workers)
        self._state.queue.look_again()
        if self._state.ceilings.pool_is_closed:
            self._holding.nothing_to_release()
        self._holding.may_be_given_nothing(backend_pacing.closed_boots(self._state))
        if not unfinished:
            self._headroom.turn()
        self._taking_back.turn()
        return unfinished

    def _fill(self, workers: list[Roomy]) -> bool:
        state, drops, barred, going_on = self._state, 0, set[str](), False
        slots = len(state.held) + sum(candidate.room for _, candidate, _ in workers)
        while workers and self._may_release():
            tracked = self._next(workers, slots, self._headroom.closed() | barred, going_on=going_on)
            going_on = True
            if tracked is None:
                self._holding.nothing_to_release()
                return False
            if state.cancels.has(tracked.id, tracked.record.tenant):
                self._endings.cancel(tracked)
                continue
            if self._cancelled_by_operator(tracked) or self._drop(tracked, slots):
                drops += 1
                if drops == MOST_DROPS:
                    return True
                continue
            drops = 0
            if self._headroom.bars(tracked):
                barred.add(tracked.record.tier)
                self.barred = barred
                continue
            if not self._give(tracked, workers):
                self._fits_nowhere = True
                self._holding.nothing_to_release()
                return False
        return False

    def _may_release(self) -> bool:
        """Unless commands are stalled, or the pool has spent what its backends may be given."""
        breathless = self._state.now.boot_ms < self._commands.breathless_until_ms
        return not breathless and not self._state.ceilings.pool_is_closed

    def _next(self, workers: list[Roomy], slots: int, closed: Set[str], *, going_on: bool) -> Tracked | None:
        """The first in line, or one that comes near it; None: nobody, or it waits for a cache. Who fits none isn't passed."""
        first = self._state.queue.next(slots, closed, going_on=going_on)
        if first is None or not first.record.prefix or not self._fits(first, workers):
            return first
        chosen = self._routing.instead_of(first, workers, slots, self._holding.fits)
        return chosen if chosen is None or chosen is first or self._fits(chosen, workers) else first

    def _fits(self, tracked: Tracked, workers: list[Roomy]) -> bool:
        return any(self._holding.fits(tracked, each.worker) for each in workers)

    def _give(self, tracked: Tracked, workers: list[Roomy]) -> bool:
        """To the best whose cache it fits, too. False: it fits none now, and nobody passes it."""
        ordered = self._routing.by_preference(tracked.record, workers)
        if ordered is None:
            return self._give_to_least_loaded(tracked, workers)
        best = next((each for each in ordered if self._holding.fits(tracked, each.worker)), None)
        if best is None:
            return False
        left = self._run(tracked, best)
        if left.candidate.room > 0:
            workers[workers.index(best)] = left
        else:
            workers.remove(best)
        heapify(workers)
        return True

    def _give_to_least_loaded(self, tracked: Tracked, workers: list[Roomy]) -> bool:
        full = []
        while workers and not self._holding.fits(tracked, workers[0].worker):
            full.append(heappop(workers))
        given = bool(workers)
        if given:
            left = self._run(tracked, workers[0])
            if left.candidate.room > 0:
                heapreplace(workers, left)
            else:
                heappop(workers)
        for each in full:
            heappush(workers, each)
        return given

    def _run(self, tracked: Tracked, roomy: Roomy) -> Roomy:
        """There, whatever is left of its room."""
        _, candidate, worker = roomy
        self._dispatching.run(tracked, worker)
        self._headroom.given()
        left = candidate.with_one_more()
        if backend_pacing.is_closed(self._state, worker):
            left = left._replace(room=0)
        return Roomy(load_of(left), left, worker)

    def _cancelled_by_operator(self, tracked: Tracked) -> bool:
        """End it where an order of many means it that hasn't come to it yet; whether that was so."""
        cancels = self._state.bulk_cancels
        cancel = cancels.that_means(facts_of(tracked)) if cancels else None
        if cancel is None:
            return False
        cancel.done += 1
        self._endings.cancel(tracked, FailureKind.CANCELLED_BY_OPERATOR)
        return True

    def _drop(self, tracked: Tracked, slots: int) -> bool:
        """End it if it would only waste a slot; whether that was so."""
        record = tracked.record
        if record.finish_by_ms is None:
            return False
        spared = is_spared(
            waiting=self._state.queue.backlog(record.tier, record.tenant).requests,
            in_flight=self._state.accounts.seen(record.tier, record.tenant).in_flight,
            slots=slots,
            part=self._state.queue.share(record.tier, record.tenant),
        )
        takes = self._estimating.time_of(record)
        late = is_it_too_late(record.finish_by_ms, self._state.now.wall_ms, takes, spared=spared)
        if late is None:
            return False
        missed_by = f" It would have missed it by about {max(100, late.by_ms) / 1000:.1f} s."
        infeasible = late.kind is FailureKind.DEADLINE_INFEASIBLE
        self._endings.expire(
            tracked, late.kind, rule_of(late.kind).sentence + missed_by if infeasible else ""
        )
        return True

    def _with_room(self) -> list[Roomy]:
        """The workers that may get more, as a heap by load."""
        found, apart = [], self._quarantine.boot
        for worker in self._state.workers.live.values():
            room = room_at(self._state, worker)
            if room > 0 and worker.boot != apart:
                held = self._state.held.count_of(worker.boot)
                candidate = Candidate(worker.boot, worker.report.limit, held, room)
                found.append(Roomy(load_of(candidate), candidate, worker))
        heapify(found)
        return found
