"""Slots that a tier owns: never lent where they are whole and wanted, taken back where it has waited too long; its part."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.bus.messages import message_of
from headrace.contracts.commands import Cancel, CancelReason, Run
from headrace.contracts.control import Query
from headrace.contracts.explanations import Closed, Gate
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import MAX_TEXT_BYTES
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import CostWeights, Policy, policy_from
from headrace.contracts.replies import Answer
from headrace.contracts.reports import Held
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure
from headrace.scheduler.core import headroom
from headrace.scheduler.decisions.what_is_lent import Share, closed_to, safe
from headrace.scheduler.decisions.whom_to_preempt import Running, stop_costs, whom_to_preempt
from headrace.scheduler.state.wanted import REMEMBERED, Wanted
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.pure import POOL, place

TIERS = ("interactive", "standard", "batch")


def policy(percent: int = 10, weight: int = 1) -> Policy:
    """Interactive work owns so many slots, batch work may be stopped, standard work may not."""
    return policy_from(
        {
            "pools": {POOL: {"models": {"m": "m"}}},
            "tiers": {
                "interactive": {"weight": weight, "headroom_percent": percent, "queue_timeout": "10m"},
                "standard": {"weight": 1, "queue_timeout": "10m"},
                "batch": {"weight": 100, "preemptible": True, "queue_timeout": "24h"},
            },
            "tenants": {"a": {"default_tier": "batch"}},
            "topics": {"tenant_partitions": 2, "lanes": 3, "gateways": 1},
        }
    )


def full_of(tier: str, limit: int = 4, percent: int = 10, weight: int = 1) -> Case:
    """A pool whose slots all hold long work of one tier, with more of it waiting."""
    case = Case(policy(percent, weight))
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


def why(case: Case, request_id: str) -> tuple[Closed, ...]:
    """The gates that are closed to it, as its owner says."""
    before = len(case.world.records(TopicKind.REPLIES))
    query = Query(id=request_id, nonce="n", gateway=0, why=True)
    case.world.append(message_of(place(TopicKind.CONTROL), query))
    case.run(300)
    (answer,) = case.world.records(TopicKind.REPLIES)[before:]
    assert isinstance(answer, Answer)
    assert answer.why is not None
    return answer.why.closed


def test_what_was_stopped_too_often_to_get_a_free_slot_is_told_so_and_so_is_what_waits_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = full_of("batch", limit=1)
    first = case.commands(Run)[0]
    behind = case.submit(into="batch")
    for times in (1, 2):
        case.submit(into="interactive")
        case.run(400)
        give_back(case, case.commands(Run)[-1])
        case.run(500)
        reported(case, {case.commands(Run)[-1].attempt: 1}, limit=1)
        if times == 2:
            monkeypatch.setattr(headroom, "may_stay", lambda _shares, *, slots: slots - 1)
        case.answer(case.commands(Run)[-1], Verdict.DONE, status=Status.SUCCEEDED)
        case.run(500)
        reported(case, {case.commands(Run)[-1].attempt: 1} if times == 1 else {}, limit=1)
    ran = len(case.commands(Run))
    for waiting in (first.request.id, behind.id):
        assert Closed(gate=Gate.STOPPED_OFTEN, limit=0, used=0) in why(case, waiting)
    assert len(case.commands(Run)) == ran
    monkeypatch.undo()
    case.run(300)
    assert len(case.commands(Run)) == ran + 1
    assert Gate.STOPPED_OFTEN not in {each.gate for each in why(case, behind.id)}


@pytest.mark.parametrize("percent", [0, 10])
def test_nobody_is_stopped_who_is_not_preemptible_or_for_a_tier_without_headroom(percent: int) -> None:
    case = full_of("standard" if percent else "batch", percent=percent)
    case.submit(into="interactive")
    case.run(3_000)
    assert preempted(case) == []


def end(case: Case, runs: list[Run]) -> None:
    for run in runs:
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED)
    case.run(300)


def test_whole_slots_that_a_tier_has_wanted_are_never_lent_and_are_there_at_once() -> None:
    case = full_of("batch", limit=20)
    assert len(case.commands(Run)) == 20, "nobody has wanted any"
    urgent = [case.submit(into="interactive") for _ in range(3)]
    case.run(600)
    stopped = preempted(case)
    assert len(stopped) == 2, (
        "its two slots are all that it may take back: its part of the work is less than one"
    )
    for run in [run for run in case.commands(Run) if run.attempt in stopped]:
        give_back(case, run)
    case.run(600)
    assert [run.request for run in case.commands(Run)[20:]] == urgent[:2]
    end(case, case.commands(Run)[20:])
    end(case, case.commands(Run)[22:])
    assert len(case.commands(Run)) == 23, "both its slots are kept, though batch work waits"
    again = [case.submit(into="interactive") for _ in range(2)]
    case.run(100)
    assert [run.request for run in case.commands(Run)[23:]] == again
    assert preempted(case) == stopped


def test_a_tier_takes_its_part_back_and_leaves_the_others_theirs() -> None:
    case = full_of("batch", limit=20, weight=100)
    urgent, given_back = {case.submit(into="interactive").id for _ in range(15)}, set[AttemptId]()
    for _ in range(6):
        case.run(600)
        stopped = set(preempted(case))
        for run in [run for run in case.commands(Run) if run.attempt in stopped - given_back]:
            give_back(case, run)
        given_back |= stopped
    held = [run for run in case.commands(Run) if run.request.id in urgent]
    assert len(held) == 9, "100 of 201 parts of 20 slots"
    assert len(stopped) == 9


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
    st.builds(
        Share,
        st.integers(1, 40),
        st.integers(0, 30),
        st.integers(0, 30),
        coming=st.integers(0, 3),
        waiting_since_ms=st.sampled_from([None, 0, 900]),
    ),
    max_size=2,
)


@given(SHARES, st.integers(0, 60), st.integers(1, 60))
def test_whoever_owns_free_slots_may_have_them_and_nobody_else(
    shares: dict[str, Share], free: int, slots: int
) -> None:
    closed = closed_to(TIERS, shares, free=free, slots=slots, boot_ms=1_000)
    for tier in TIERS:
        others = sum(
            max(0, share.owned(slots, 1_000) - share.held, share.coming)
            for name, share in shares.items() if name != tier
        )  # fmt: skip
        assert (tier in closed) == (free - others < 1)


@given(
    st.builds(
        Share,
        st.integers(1, 100),
        st.integers(0, 30),
        st.integers(0, 30),
        part=st.fractions(0, 1, max_denominator=100),
        waiting_since_ms=st.integers(0, 2_000),
    ),
    st.integers(0, 60),
    st.integers(0, 9),
)
def test_no_more_is_taken_back_than_is_owned_waited_for_and_overdue(
    share: Share, slots: int, waiting: int
) -> None:
    share = replace(share, waiting=waiting)
    owed, besides = (ask(slots, 2_000) for ask in (share.to_take_back, share.to_take_besides))
    assert max(owed, besides) <= waiting
    assert not owed or share.held + owed <= min(-(-slots * share.percent // 100), share.wanted)
    assert not besides or share.held + besides <= slots * share.part
    assert not (owed or besides) or share.waiting_since_ms is None or 2_000 - share.waiting_since_ms >= 250


def test_what_is_safe_is_a_part_rounded_up() -> None:
    parts = [Fraction(2, 3), Fraction(1, 4), Fraction(1, 12)]
    assert [safe(32, part) for part in parts] == [22, 8, 3]


@given(st.lists(st.tuples(st.integers(0, 600_000), st.integers(0, 50)), max_size=30), st.integers(0, 900_000))
def test_what_was_wanted_is_remembered_for_five_minutes_and_for_no_more_than_ten(
    seen: list[tuple[int, int]], later_ms: int
) -> None:
    wanted, now_ms, all_seen = Wanted(), 10**6, list[tuple[int, int]]()
    for after_ms, number in seen:
        now_ms += after_ms
        wanted.saw(now_ms, number)
        all_seen.append((now_ms, number))
    now_ms += later_ms
    five = REMEMBERED // timedelta(milliseconds=1)
    least, most = (
        max((number for at, number in all_seen if now_ms - at <= span), default=0)
        for span in (five, 2 * five)
    )
    assert least <= wanted.most(now_ms) <= most


WEIGHTS = CostWeights()
TOKENS = st.integers(0, 10**5)


@given(TOKENS, TOKENS, st.integers(1, 10**4))
def test_a_stop_costs_less_where_the_text_is_kept_and_more_the_more_is_said(
    prompt: int, answer: int, more: int
) -> None:
    kept, lost = (stop_costs(prompt, answer, WEIGHTS, kept=each) for each in (True, False))
    if 4 * answer <= MAX_TEXT_BYTES:
        assert kept == (prompt + answer) * WEIGHTS.prompt, "both are read again"
    else:
        assert kept == lost, "a text that is too long isn't kept"
    assert lost == prompt * WEIGHTS.prompt + answer * WEIGHTS.completion >= kept
    for each in (True, False):
        assert stop_costs(prompt, answer + more, WEIGHTS, kept=each) > stop_costs(
            prompt, answer, WEIGHTS, kept=each
        )


def test_who_goes_on_later_is_stopped_rather_than_who_loses_a_little_less_text() -> None:
    case = Case(policy())
    case.run()
    case.report(4)
    case.run(100)
    kept = [case.submit(plain_text=True, max_tokens=500) for _ in range(2)]
    for _ in range(2):
        case.submit(max_tokens=500)
    case.run(300)
    said = {run.attempt: 30 if run.request in kept else 20 for run in case.commands(Run)}
    reported(case, said)
    case.submit(into="interactive")
    case.run(600)
    stopped = [run.request for run in case.commands(Run) if run.attempt in preempted(case)]
    assert len(stopped) == 1
    assert stopped[0] in kept


def test_what_costs_least_goes_first_and_of_equals_the_last_released() -> None:
    def running(number: int, costs: int, **more: Any) -> Running:
        return Running(AttemptId(1, number), f"r{number}", costs, **{"times": 0, "preemptible": True, **more})

    found = [running(1, 5), running(2, 0), running(3, 0), running(4, 0, times=2), running(5, 0, preemptible=False),
             running(6, 0, tried_apart=True)]  # fmt: skip
    assert [each.id for each in whom_to_preempt(found, 9)] == ["r3", "r2", "r1"]
    assert [each.id for each in whom_to_preempt(found, 1)] == ["r3"]
    assert whom_to_preempt(found, 0) == whom_to_preempt(found, -1) == []
