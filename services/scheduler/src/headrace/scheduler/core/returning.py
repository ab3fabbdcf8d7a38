"""Puts requests back into the queue: after a failed, lost or never started attempt, or the death of a worker.

Called by core.attempt_log, core.worker_log and core.commands. Invariant: an attempt's charge is taken back exactly once, and
only a started attempt is counted.
"""

from headrace.contracts.checkpoints import Retrying
from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.values import Origin
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.terminal_records import failure_of
from headrace.scheduler.decisions.when_expired import start_by_of
from headrace.scheduler.decisions.when_to_retry import Again, GiveUp, when_to_retry
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Phase, Tracked


class Returning:
    """The ways back."""

    def __init__(self, state: PoolState, endings: Endings) -> None:
        self._state, self._endings = state, endings

    def let_go(self, held: HeldAttempt) -> None:
        """The attempt is no longer in anybody's hands."""
        self._state.held.remove(held)
        self._state.missing.pop(held.id, None)
        self._state.accounts.refund(held.tier, held.tenant, held.charge)

    def unstarted(self, held: HeldAttempt) -> None:
        """The attempt never reached its worker: the request waits again as if it hadn't been released."""
        self.let_go(held)
        tracked = self._state.tracked.get(held.id)
        if tracked is not None:
            self.wait(tracked)

    def died(self, held: HeldAttempt) -> None:
        """The attempt went down with its worker. It counts, and is settled, if it was running."""
        if not held.running:
            self.unstarted(held)
            return
        self.let_go(held)
        if self._state.settled.add(held.attempt, self._state.minute) is not None:
            cost = held.tokens * self._state.setting.pool_policy.cost.completion
            self._state.accounts.settle(held.tier, held.tenant, cost)
        self._state.count("attempts_worker_died")
        self.failed(
            held.id,
            held.origin,
            held.attempt,
            held.attempts,
            FailureKind.WORKER_DIED,
            started=True,
            earliest_ms=None,
        )

    def failed(
        self,
        request_id: str,
        origin: Origin,
        attempt: AttemptId,
        attempts: int,
        kind: FailureKind | None,
        *,
        started: bool,
        earliest_ms: int | None,
    ) -> None:
        """An attempt failed in a way that another may mend: try again later, or give up."""
        state, tracked = self._state, self._state.tracked.get(request_id)
        verdict = when_to_retry(
            kind,
            attempts=attempts,
            started=started,
            max_attempts=state.setting.pool_policy.max_attempts,
            earliest_ms=earliest_ms,
            finish_by_ms=None if tracked is None else tracked.record.finish_by_ms,
            wall_ms=state.now.wall_ms,
            random=state.setting.random(),
        )
        suspect = kind is not None and rule_of(kind).suspect
        self._remember(request_id, origin, attempt, verdict, suspect=suspect)
        if tracked is None:
            return
        tracked.last = max(tracked.last, attempt)
        if isinstance(verdict, Again):
            self._delay(tracked, verdict)
        else:
            self._give_up(tracked, verdict, kind)

    def wait(self, tracked: Tracked) -> None:
        """It may run now."""
        self._state.queue.put(tracked)
        self._state.expiries.put(tracked)
        self._state.ages[tracked.record.tier].put(tracked)

    def wait_until_due(self, tracked: Tracked) -> None:
        """It may run at its `due_ms`."""
        if tracked.phase is Phase.WAITING:
            self._state.queue.take(tracked, Phase.DELAYED)
        tracked.phase = Phase.DELAYED
        for heap in (self._state.delays, self._state.expiries, self._state.ages[tracked.record.tier]):
            heap.put(tracked)

    def _delay(self, tracked: Tracked, again: Again) -> None:
        tracked.used, tracked.due_ms = again.used, again.due_ms
        record = tracked.record
        tracked.start_by_ms = start_by_of(
            record.accepted_ms, record.start_by_ms, used=again.used, due_ms=again.due_ms
        )
        if again.due_ms > self._state.now.wall_ms:
            self.wait_until_due(tracked)
        elif tracked.phase is not Phase.WAITING:
            self.wait(tracked)

    def _give_up(self, tracked: Tracked, verdict: GiveUp, last: FailureKind | None) -> None:
        tracked.used = verdict.used
        if verdict.kind is FailureKind.DEADLINE_PASSED:
            self._endings.expire(tracked, verdict.kind)
            return
        detail = rule_of(verdict.kind).sentence + (
            "" if last is None else f" The last: {rule_of(last).sentence}"
        )
        self._endings.end(tracked, Status.DEAD_LETTERED, failure_of(verdict.kind, detail))

    def _remember(
        self, request_id: str, origin: Origin, attempt: AttemptId, verdict: Again | GiveUp, *, suspect: bool
    ) -> None:
        """Keep it for the next owner, and for the request's record if that hasn't been read yet."""
        most = self._state.setting.pool_policy.max_attempts
        before = self._state.retrying.get(request_id)
        self._state.retrying[request_id] = Retrying(
            id=request_id,
            origin=origin,
            attempt=attempt,
            attempts=verdict.used if isinstance(verdict, Again) else max(verdict.used, most),
            due_ms=verdict.due_ms if isinstance(verdict, Again) else self._state.now.wall_ms,
            suspect=suspect or (before is not None and before.suspect),
        )
        self._state.dirty.add(f"retrying/{request_id}")
