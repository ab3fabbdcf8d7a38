"""Releases requests to workers: as many as have room, in fair order. Called by PoolCore at the end of each step.

Invariant: what has expired or was cancelled is ended instead; a release is an entry in memory and a `run` on the wire.
"""

from heapq import heapify, heappop, heapreplace

from headrace.contracts.commands import Run
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.how_much_may_a_backend_hold import room_of
from headrace.scheduler.decisions.when_expired import expired_as
from headrace.scheduler.decisions.which_backend import Candidate, load_of
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Phase, Tracked
from headrace.scheduler.state.workers import Worker

_Loaded = tuple[tuple[int, int, str], Candidate, Worker]


class Releasing:
    """Fills the slots."""

    def __init__(self, state: PoolState, commands: Commands, endings: Endings) -> None:
        self._state, self._commands, self._endings = state, commands, endings

    def expire(self) -> None:
        """End what has waited too long, wherever in the queue it stands; tell the workers of what is late."""
        state = self._state
        for tracked in state.expiries.due(state.now.wall_ms):
            if tracked.phase is Phase.HELD:
                state.overdue.add(tracked.id)
                continue
            kind = expired_as(tracked.start_by_ms, tracked.record.finish_by_ms, state.now.wall_ms)
            if kind is not None:
                self._endings.expire(tracked, kind)

    def wake_delayed(self) -> None:
        """Let those wait whose next try is due."""
        for tracked in self._state.delays.due(self._state.now.wall_ms):
            self._state.queue.put(tracked)

    def release(self) -> None:
        """Give work to whoever has room, until there is no work or no room."""
        state, workers = self._state, self._with_room()
        while workers and state.now.boot_ms >= self._commands.breathless_until_ms:
            tracked = state.queue.next()
            if tracked is None:
                return
            if (
                tracked.id in state.cancels
                and state.cancels[tracked.id].request.tenant == tracked.record.tenant
            ):
                self._endings.cancel(tracked)
                continue
            _, candidate, worker = workers[0]
            self._run(tracked, worker)
            left = candidate._replace(held=candidate.held + 1, room=candidate.room - 1)
            if left.room > 0:
                heapreplace(workers, (load_of(left), left, worker))
            else:
                heappop(workers)

    def _with_room(self) -> list[_Loaded]:
        """The workers that may get more, as a heap by load."""
        found = []
        for worker in self._state.workers.live.values():
            report, held = worker.report, self._state.held.count_of(worker.boot)
            room = room_of(
                limit=report.limit,
                held=held,
                healthy=report.healthy,
                draining=report.draining,
                answered=report.epoch >= self._state.epoch and not worker.refuses,
            )
            if room > 0:
                candidate = Candidate(worker.boot, report.limit, held, room)
                found.append((load_of(candidate), candidate, worker))
        heapify(found)
        return found

    def _run(self, tracked: Tracked, worker: Worker) -> None:
        state, record = self._state, tracked.record
        state.queue.take(tracked, Phase.HELD)
        attempt = state.next_attempt()
        tracked.last = attempt
        held = HeldAttempt(
            attempt=attempt,
            id=record.id,
            tenant=record.tenant,
            tier=record.tier,
            origin=tracked.origin,
            attempts=tracked.used + 1,
            charge=tracked.charge,
            boot=worker.boot,
            lane=worker.report.lane,
        )
        state.held.add(held)
        state.accounts.dispatch(record.tier, record.tenant, tracked.charge)
        state.expiries.put(tracked)
        self._send(tracked, held)

    def _send(self, tracked: Tracked, held: HeldAttempt) -> None:
        state, record = self._state, tracked.record
        run = Run(
            epoch=state.epoch,
            boot=held.boot,
            attempt=held.attempt,
            attempts=held.attempts,
            origin=held.origin,
            request=record,
            charge=held.charge,
            dispatched_ms=state.now.wall_ms,
        )
        waited_ms = max(0, state.now.wall_ms - record.accepted_ms)
        state.out.waits_ms.append((record.tier, waited_ms))
        state.count("released")
        self._commands.send(
            held.lane, run, held=held, value=tracked.value, trace=tracked.trace, waited_ms=waited_ms
        )
