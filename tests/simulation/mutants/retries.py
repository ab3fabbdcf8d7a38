"""Wrong versions of what the owner does with a failed attempt: whether and when it runs again. Listed by mutants.every."""

from dataclasses import replace
from typing import Any

from headrace.contracts.failures import FailureKind
from headrace.scheduler.core import returning
from headrace.scheduler.core.attempt_log import AttemptLog
from headrace.scheduler.core.releasing import Releasing
from headrace.scheduler.core.returning import Returning
from headrace.scheduler.decisions import when_to_retry
from headrace.scheduler.decisions.when_to_retry import Again, GiveUp
from tests.simulation.mutants.mutant import Mutant, Patches


def an_old_retry_puts_back_what_runs(patches: Patches) -> None:
    def retry(self: AttemptLog, record: Any, received: Any) -> None:
        held = self._state.held.of(record.id)
        if held is not None and record.attempt < held.attempt:
            self._returning.let_go(held)
            self._returning.failed(self._as_failed(record, None))
            return
        right(self, record, received)

    right = AttemptLog._retry
    patches.set(AttemptLog, "_retry", retry)


def whatever_fails_is_tried_for_ever(patches: Patches) -> None:
    right = when_to_retry.when_to_retry

    def decide(kind: FailureKind | None, **given: Any) -> Again | GiveUp:
        return right(kind, **{**given, "max_attempts": 10**6})

    patches.set(returning, "when_to_retry", decide)


def handing_back_uses_an_attempt(patches: Patches) -> None:
    right = when_to_retry.when_to_retry

    def decide(kind: FailureKind | None, **given: Any) -> Again | GiveUp:
        return right(kind and None, **{**given, "started": True})

    patches.set(returning, "when_to_retry", decide)


def the_failed_are_forgotten(patches: Patches) -> None:
    patches.set(Returning, "_delay", lambda _self, _tracked, _again: None)


def retries_wait_by_the_wall_clock(patches: Patches) -> None:
    def wake_delayed(self: Releasing) -> None:
        now, claimed = self._state.now, self._state.claimed
        for tracked in self._state.delays.due(claimed.boot_ms + now.wall_ms - claimed.wall_ms):
            self._returning.may_run(tracked)

    patches.set(Releasing, "wake_delayed", wake_delayed)


def a_workers_instant_is_believed(patches: Patches) -> None:
    right = AttemptLog._as_failed

    def as_failed(self: AttemptLog, record: Any, kind: Any) -> Any:
        wait_ms = (record.retry_ms or 0) - self._state.now.wall_ms
        return replace(right(self, record, kind), at_least_ms=max(0, wait_ms))

    patches.set(AttemptLog, "_as_failed", as_failed)


RETRIES = (
    Mutant(
        "old retry puts back what runs",
        "a stale RetryAt changes nothing",
        an_old_retry_puts_back_what_runs,
        "a_failure_of_an_older_attempt_comes_late",
    ),
    Mutant(
        "tried for ever",
        "attempts are bounded",
        whatever_fails_is_tried_for_ever,
        "a_request_fails_again_and_again_over_owners",
    ),
    Mutant(
        "handing back uses an attempt",
        "what never started uses no attempt",
        handing_back_uses_an_attempt,
        "a_worker_hands_back_again_and_again",
    ),
    Mutant(
        "the failed are forgotten",
        "a failed request waits for its next try",
        the_failed_are_forgotten,
        "a_request_fails_again_and_again_over_owners",
    ),
    Mutant(
        "retries wait by the wall clock",
        "a wait is a duration",
        retries_wait_by_the_wall_clock,
        "an_owners_clock_is_put_back_while_a_retry_waits",
    ),
    Mutant(
        "a worker's instant is believed",
        "a wait begins when its failure is read",
        a_workers_instant_is_believed,
        "a_workers_clock_is_ahead_when_it_fails",
    ),
)
