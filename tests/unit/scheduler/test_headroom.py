"""Slots that a tier owns: never lent where they are whole, taken back where it has waited too long."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import Cancel, CancelReason, Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import Policy, policy_from
from headrace.contracts.reports import Held
from headrace.contracts.values import Failure
from headrace.scheduler.decisions.what_is_lent import Share, closed_to
from headrace.scheduler.decisions.whom_to_preempt import Running, whom_to_preempt
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.pure import POOL

TIERS = ("interactive", "standard", "batch")


def policy(percent: int = 10) -> Policy:
    """Interactive work owns so many slots, batch work may be stopped, standard work may not."""
    return policy_from(
        {
            "pools": {POOL: {"models": {"m": "m"}}},
            "tiers": {
                "interactive": {"weight": 1, "headroom_percent": percent, "queue_timeout": "10m"},
                "standard": {"weight": 1, "queue_timeout": "10m"},
                "batch": {"weight": 100, "preemptible": True, "queue_timeout": "24h"},
            },
            "tenants": {"a": {"default_tier": "batch"}},
            "topics": {"tenant_partitions": 2, "lanes": 3, "gateways": 1},
        }
    )


def full_of(tier: str, limit: int = 4, percent: int = 10) -> Case:
    """A pool whose slots all hold long work of one tier, with more of it waiting."""
    case = Case(policy(percent))
    case.run()
    case.report(limit)
    case.run(100)
    for _ in range(2 * limit):
        case.submit(into=tier)
    case.run(300)
    return case


def reported(case: Case, tokens: dict[AttemptId, int], limit: int = 4) -> None:
    """The worker says how far each attempt is."""
    runs = {run.attempt: run for run in case.commands(Run)}
    held = [
        Held(
            attempt=attempt, id=run.request.id, tenant="a", tier=run.request.tier, origin=run.origin,
            attempts=run.attempts, charge=run.charge, running=True, tokens=done,
        )
        for attempt, done in tokens.items() for run in (runs[attempt],)
    ]  # fmt: skip
    case.report(limit, held=tuple(held))
    case.run(50)


def preempted(case: Case) -> list[AttemptId]:
    found = [each.attempt for each in case.commands(Cancel) if each.reason is CancelReason.PREEMPTED]
    return list(dict.fromkeys(found))


def give_back(case: Case, run: Run, **more: Any) -> None:
    case.answer(
        run,
        Verdict.RETRY_AT,
        failure=Failure(kind=FailureKind.PREEMPTED, message=""),
        boot=BOOT,
        started=True,
        **more,
    )


def test_an_urgent_request_behind_full_slots_gets_the_slot_of_the_least_done_within_250_ms() -> None:
    case = full_of("batch")
    reported(case, {run.attempt: 100 - number for number, run in enumerate(case.commands(Run))})
    urgent = case.submit(into="interactive")
    case.run(225)
    assert preempted(case) == []
    case.run(125)
    last = case.commands(Run)[-1]
    assert preempted(case) == [last.attempt], "the one with the fewest tokens"
    give_back(case, last)
    case.run(100)
    assert case.commands(Run)[-1].request == urgent, (
        "and no batch request takes it, however light its tier's tag is"
    )


def test_a_preempted_request_runs_again_uses_no_attempt_and_is_stopped_twice_at_most() -> None:
    case = full_of("batch", limit=1)
    first = case.commands(Run)[0]
    for times in (1, 2):
        urgent = case.submit(into="interactive")
        case.run(400)
        run = case.commands(Run)[-1]
        assert (run.request.id, run.attempts) == (first.request.id, 1)
        assert len(preempted(case)) == times
        give_back(case, run)
        case.run(500)
        assert case.commands(Run)[-1].request == urgent
        case.answer(case.commands(Run)[-1], Verdict.DONE, status=Status.SUCCEEDED)
        case.run(500)
    reported(case, {case.commands(Run)[-1].attempt: 1}, limit=1)
    urgent = case.submit(into="interactive")
    case.run(2_000)
    assert len(preempted(case)) == 2, "the third urgent request waits for its end"
    case.answer(case.commands(Run)[-1], Verdict.DONE, status=Status.SUCCEEDED)
    case.run(600)
    assert case.commands(Run)[-1].request == urgent


@pytest.mark.parametrize("percent", [0, 10])
def test_nobody_is_stopped_who_is_not_preemptible_or_for_a_tier_without_headroom(percent: int) -> None:
    case = full_of("standard" if percent else "batch", percent=percent)
    case.submit(into="interactive")
    case.run(3_000)
    assert preempted(case) == []


def test_whole_slots_are_never_lent_and_are_there_at_once() -> None:
    case = full_of("batch", limit=20)
    assert len(case.commands(Run)) == 18
    urgent = [case.submit(into="interactive") for _ in range(3)]
    case.run(300)
    assert [run.request for run in case.commands(Run)[18:]] == urgent[:2]
    case.run(2_000)
    assert preempted(case) == [], "its share is all that it may take back"


def test_what_is_finished_meanwhile_is_not_stopped_again_and_the_next_owner_remembers_how_often() -> None:
    case = full_of("batch", limit=1)
    case.submit(into="interactive")
    case.run(400)
    run = case.commands(Run)[-1]
    give_back(case, run)
    case.run(1_500)
    owner = case.owner.core
    assert owner is not None
    assert owner.state.retrying[run.request.id].preempted == 1
    told = len(case.commands(Cancel))
    case.run(3_000)
    assert len(case.commands(Cancel)) == told


SHARES = st.dictionaries(
    st.sampled_from(TIERS),
    st.builds(Share, st.integers(1, 40), st.integers(0, 30), st.sampled_from([None, 0, 900])),
    max_size=2,
)


@given(SHARES, st.integers(0, 60), st.integers(1, 60))
def test_whoever_owns_free_slots_may_have_them_and_nobody_else(
    shares: dict[str, Share], free: int, slots: int
) -> None:
    closed = closed_to(TIERS, shares, free=free, slots=slots, boot_ms=1_000)
    for tier in TIERS:
        others = sum(
            max(0, share.owned(slots, 1_000) - share.held) for name, share in shares.items() if name != tier
        )
        assert (tier in closed) == (free - others < 1)


@given(
    st.builds(Share, st.integers(1, 100), st.integers(0, 30), st.integers(0, 2_000)),
    st.integers(0, 60),
    st.integers(0, 9),
)
def test_no_more_is_taken_back_than_is_owned_waited_for_and_overdue(
    share: Share, slots: int, waiting: int
) -> None:
    owed = share.to_take_back(slots, waiting, 2_000)
    assert owed <= waiting
    assert not owed or share.held + owed <= -(-slots * share.percent // 100)
    assert not owed or share.waiting_since_ms is None or 2_000 - share.waiting_since_ms >= 250


def test_the_least_done_goes_first_and_of_equals_the_last_released() -> None:
    def running(number: int, tokens: int, **more: Any) -> Running:
        return Running(
            AttemptId(1, number), f"r{number}", tokens, **{"times": 0, "preemptible": True, **more}
        )

    found = [running(1, 5), running(2, 0), running(3, 0), running(4, 0, times=2), running(5, 0, preemptible=False),
             running(6, 0, tried_apart=True)]  # fmt: skip
    assert [each.id for each in whom_to_preempt(found, 9)] == ["r3", "r2", "r1"]
    assert [each.id for each in whom_to_preempt(found, 1)] == ["r3"]
    assert whom_to_preempt(found, 0) == whom_to_preempt(found, -1) == []
