"""Puts requests back into the queue: after a failed, lost or never started attempt, or the death of a worker.

Called by core.attempt_log, core.worker_log and core.commands. Invariant: an attempt's charge is taken back exactly once, and
only what may have started is counted; what was sent to a worker that died may have.
"""

from headrace.contracts.checkpoints import Retrying
from headrace.contracts.failures import FailureKind, rule_of
from headrace.contracts.lifecycle import Status
from headrace.contracts.policy import TenantPolicy
from headrace.scheduler.core import pacing
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.suspicion import Case, FailedAttempt, Suspicion
from headrace.scheduler.core.terminal_records import failure_of
from headrace.scheduler.decisions.may_retry import may_retry, takes_budget
from headrace.scheduler.decisions.when_expired import start_by_of
from headrace.scheduler.decisions.when_to_retry import Again, GiveUp, when_to_retry
from headrace.scheduler.decisions.which_text_is_kept import Text, has_gained, is_text_blameless
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Phase, Tracked

_ANYBODY = TenantPolicy()
_GATHER_MS = 1_000
"""A suspect isn't tried apart before the others of the same death are known."""


class Returning:
    """The ways back."""

    def __init__(
        self, state: PoolState, endings: Endings, suspicion: Suspicion, estimating: Estimating
    ) -> None:
        self._state, self._endings, self._suspicion = state, endings, suspicion
        self._estimating = estimating

    def let_go(self, held: HeldAttempt) -> None:
        """The attempt is no longer in anybody's hands."""
        self._state.held.remove(held)
        limits = self._state.limits.get(held.boot)
        if limits is not None:
            limits.loads.drop(held.id)
        self._state.missing.pop(held.id, None)
        self._state.accounts.refund(held.tier, held.tenant, held.charge, held.flow)
        pacing.let_go(self._state, held)

    def unstarted(self, held: HeldAttempt) -> None:
        """The attempt never reached its worker: the request waits again as if it hadn't been released."""
        self.let_go(held)
        tracked = self._state.tracked.get(held.id)
        if tracked is not None:
            self.wait(tracked)

    def died(self, held: HeldAttempt, worker: str) -> None:
        """The attempt went down with its worker: it counts, it is settled, and its request is suspected of the death."""
        pacing.died(held)
        self.let_go(held)
        if self._state.settles(held.attempt):
            cost = held.tokens * self._state.setting.pool_policy.cost.completion
            self._state.settle(held.tier, held.tenant, cost, flow=held.flow)
        self._state.count(Counted.ATTEMPTS_WORKER_DIED)
        self.failed(
            FailedAttempt(
                id=held.id,
                tenant=held.tenant,
                origin=held.origin,
                attempt=held.attempt,
                attempts=held.attempts,
                kind=FailureKind.WORKER_DIED,
                started=True,
                at_ms=self._state.now.wall_ms,
                worker=worker,
                boot=held.boot,
                trial=held.trial,
            )
        )

    def failed(self, failed: FailedAttempt) -> None:
        """An attempt failed in a way that another may mend: try again later, or give up."""
        tracked = self._state.tracked.get(failed.id)
        case = self._suspicion.case_of(failed)
        verdict = self._within_budget(failed, self._verdict(failed, case, tracked))
        self._suspicion.keep(failed.id, case)
        self._remember(failed, case, verdict)
        if tracked is None:
            return
        tracked.last = max(tracked.last, failed.attempt)
        if tracked.phase is not Phase.WAITING and self._state.said(tracked.id):
            tracked.charge = self._estimating.charge_of(tracked.record)  # only the rest is to be said
        if isinstance(verdict, Again):
            self._delay(tracked, verdict)
        else:
            tracked.used = verdict.used
            self.end(tracked, verdict.kind, failed.kind)

    def end(self, tracked: Tracked, kind: FailureKind, last: FailureKind | None = None) -> None:
        """No further attempt. A kind that another might mend ends it as failed: its tenant has no more retries now."""
        if kind is FailureKind.DEADLINE_PASSED:
            self._endings.expire(tracked, kind)
        elif rule_of(kind).retryable:
            detail = f"{rule_of(kind).sentence} Its tenant has used up its retries of this minute."
            self._endings.end(tracked, Status.FAILED, failure_of(kind, detail))
        else:
            told = "" if last is None else f" The last: {rule_of(last).sentence}"
            self._endings.end(tracked, Status.DEAD_LETTERED, failure_of(kind, rule_of(kind).sentence + told))

    def wait(self, tracked: Tracked) -> None:
        """It may run now."""
        self.may_run(tracked)
        self._state.expiries.put(tracked)
        self._state.ages[tracked.record.tier].put(tracked)

    def may_run(self, tracked: Tracked) -> None:
        """Into the queue; who is kept apart is fetched by core.quarantine."""
        if tracked.id in self._state.suspects.group_of:
            tracked.phase = Phase.DELAYED
        else:
            self._state.queue.put(tracked)

    def wait_until_due(self, tracked: Tracked) -> None:
        """It may run once its time has come."""
        if tracked.phase is Phase.WAITING:
            self._state.queue.take(tracked, Phase.DELAYED)
        tracked.phase = Phase.DELAYED
        for heap in (self._state.delays, self._state.expiries, self._state.ages[tracked.record.tier]):
            heap.put(tracked)

    def may_run_at(self, tracked: Tracked, due_boot_ms: int) -> None:
        """It waits for its time, which is another than it was."""
        if tracked.phase is Phase.DELAYED:
            tracked.due_boot_ms = due_boot_ms
            self.wait_until_due(tracked)

    def came_back(self, boot: str) -> None:
        """A boot that was taken for dead had only lost touch: nobody is suspected of its death."""
        for request_id in self._suspicion.acquit(boot):
            tracked = self._state.tracked.get(request_id)
            if tracked is not None and tracked.phase is Phase.DELAYED:
                self.wait_until_due(tracked)

    def _verdict(self, failed: FailedAttempt, case: Case, tracked: Tracked | None) -> Again | GiveUp:
        state = self._state
        if case.guilty:
            return GiveUp(FailureKind.KILLED_WORKERS, failed.attempts)
        at_least_ms = failed.at_least_ms
        if case.group is not None:
            at_least_ms = max(at_least_ms, _GATHER_MS)
        return when_to_retry(
            failed.kind,
            attempts=failed.attempts,
            started=failed.started,
            max_attempts=state.setting.pool_policy.max_attempts,
            at_least_ms=at_least_ms,
            finish_by_ms=None if tracked is None else tracked.record.finish_by_ms,
            wall_ms=state.now.wall_ms,
            random=state.setting.random(),
        )

    def _within_budget(self, failed: FailedAttempt, verdict: Again | GiveUp) -> Again | GiveUp:
        if (
            failed.kind is None
            or isinstance(verdict, GiveUp)
            or not takes_budget(failed.kind, started=failed.started)
        ):
            return verdict
        state, tenant = self._state, failed.tenant
        policy = state.setting.policy.tenants.get(tenant, _ANYBODY)
        attempts, retries = state.retry_budgets.of(tenant, state.now.boot_ms)
        percent, minimum = policy.retry_percent, policy.retry_minimum
        if may_retry(attempts=attempts, retries=retries, percent=percent, minimum=minimum):
            state.retry_budgets.retried(tenant, state.now.boot_ms)
            return verdict
        state.count(Counted.RETRIES_REFUSED)
        return GiveUp(failed.kind, verdict.used)

    def _delay(self, tracked: Tracked, again: Again) -> None:
        now, record = self._state.now, tracked.record
        tracked.used, tracked.due_boot_ms = again.used, now.boot_ms + again.wait_ms
        tracked.start_by_ms = start_by_of(
            record.accepted_ms, record.start_by_ms, used=again.used, due_ms=now.wall_ms + again.wait_ms
        )
        if again.wait_ms > 0:
            self.wait_until_due(tracked)
        elif tracked.phase is not Phase.WAITING:
            self.wait(tracked)

    def _remember(self, failed: FailedAttempt, case: Case, verdict: Again | GiveUp) -> None:
        """Keep it for the next owner, and for the request's record if that hasn't been read yet."""
        now, wait_ms = self._state.now, verdict.wait_ms if isinstance(verdict, Again) else 0
        before = self._state.retrying.get(failed.id)
        text, gained = self._text_after(failed, before)
        in_vain = failed.kind is FailureKind.PREEMPTED and not gained
        preempted = (0 if before is None else before.preempted) + in_vain
        self._state.dues[failed.id] = now.boot_ms + wait_ms
        self._state.retrying[failed.id] = Retrying(
            id=failed.id,
            origin=failed.origin,
            attempt=failed.attempt,
            attempts=verdict.used,
            due_ms=now.wall_ms + wait_ms,
            wait_ms=wait_ms,
            suspect=bool(case.deaths),
            deaths=case.deaths,
            group=case.group,
            gave_up=None if isinstance(verdict, Again) else verdict.kind,
            preempted=preempted,
            text=None if text is None else text.told,
            text_at=None if text is None else text.at,
        )
        self._state.dirty.add(f"retrying/{failed.id}")

    def _text_after(self, failed: FailedAttempt, before: Retrying | None) -> tuple[Text | None, bool]:
        """From what it goes on now, and whether this attempt has added to it."""
        texts, left = self._state.texts, failed.left
        known = None
        if before is not None and before.text is not None and before.text_at is not None:
            known = Text(before.text, before.text_at)
        if left is not None and texts.keep(failed.id, left.text.at, left.text.told.size, left.stored):
            return left.text, has_gained(known, left.text)
        if left is not None or not is_text_blameless(failed.kind, started=failed.started):
            texts.drop(failed.id)
            return None, False
        return known, False
