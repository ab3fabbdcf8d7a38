"""A tenant's retries are a share of its attempts; a backend that fails everything isn't asked four times as often."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import Run
from headrace.contracts.failures import FAILURES, FailureKind, rule_of
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.values import Failure
from headrace.scheduler.decisions.may_retry import WINDOW, may_retry, takes_budget
from headrace.scheduler.state.retry_budgets import RetryBudgets
from tests.support.scheduler.case import Case

WINDOW_S = WINDOW.seconds
EVENTS = st.lists(st.tuples(st.integers(0, 5_000), st.sampled_from("ab"), st.booleans()), max_size=120)


@given(EVENTS)
def test_a_window_holds_what_happened_in_the_last_minute_and_nothing_else(
    events: list[tuple[int, str, bool]],
) -> None:
    budgets, now, happened = RetryBudgets(), 0, list[tuple[int, str, bool]]()
    for gap_ms, tenant, retry in events:
        now += gap_ms
        (budgets.retried if retry else budgets.attempted)(tenant, now)
        happened.append((now // 1_000, tenant, retry))
        since = now // 1_000 - WINDOW_S
        for who in "ab":
            of = [was_retry for second, tenant, was_retry in happened if tenant == who and second > since]
            assert budgets.of(who, now) == (of.count(False), of.count(True))


@given(fails=st.lists(st.booleans(), max_size=400), percent=st.integers(0, 100), minimum=st.integers(0, 50))
def test_retries_never_pass_their_share_and_nobody_within_it_is_refused(
    fails: list[bool], percent: int, minimum: int
) -> None:
    attempts = retries = 0
    for failed in fails:
        attempts += 1
        allowed = may_retry(attempts=attempts, retries=retries, percent=percent, minimum=minimum)
        assert allowed is (retries + 1 <= minimum + attempts * percent // 100)
        if failed and allowed:
            attempts, retries = attempts + 1, retries + 1
        assert retries <= minimum + attempts * percent / 100


@given(st.sampled_from(FailureKind), st.booleans())
def test_outages_deaths_and_what_never_started_use_up_no_budget(kind: FailureKind, started: bool) -> None:
    rule = rule_of(kind)
    assert takes_budget(kind, started=started) is (
        started and rule.retryable and rule.uses_attempt and not rule.suspect
    )
    assert not takes_budget(None, started=True)


def test_what_takes_budget_is_a_backend_that_failed() -> None:
    assert {kind for kind in FAILURES if takes_budget(kind, started=True)} == {
        FailureKind.BACKEND_ERROR, FailureKind.BACKEND_TIMEOUT, FailureKind.STREAM_BROKEN,
    }  # fmt: skip


@pytest.fixture
def case() -> Case:
    made = Case()
    made.run()
    return made


def fail_all(case: Case, requests: int, kind: FailureKind, **more: Any) -> None:
    """So many requests, each of whose attempts fails in this way, until all that was released has been answered."""
    for _ in range(requests):
        case.submit()
    answered: set[Any] = set()
    for _ in range(60):
        case.report(limit=200)
        case.run(500)
        for run in case.commands(Run):
            if run.attempt not in answered:
                answered.add(run.attempt)
                case.answer(run, Verdict.RETRY_AT, failure=Failure(kind=kind), worker="w", **more)


def test_over_its_budget_a_request_fails_with_its_last_failure_and_no_dead_letter(case: Case) -> None:
    fail_all(case, 120, FailureKind.BACKEND_ERROR)
    ended = case.results()
    assert len(ended) == 120
    failed = [kind for _, status, kind in ended if status is Status.FAILED]
    assert set(failed) == {FailureKind.BACKEND_ERROR}
    attempts = len(case.commands(Run))
    assert attempts <= 120 + 60 + attempts * 20 // 100
    assert attempts >= 120 + 60, "what its budget holds is tried again"
    dead = [kind for _, status, kind in ended if status is Status.DEAD_LETTERED]
    assert set(dead) <= {FailureKind.ATTEMPTS_EXHAUSTED}
    assert len(failed) + len(dead) == 120


def test_an_outage_ends_nobody(case: Case) -> None:
    fail_all(case, 80, FailureKind.BACKEND_UNAVAILABLE, started=False)
    fail_all(case, 0, FailureKind.BACKEND_OVERLOADED)
    assert case.results() == []
    assert len(case.commands(Run)) > 300
