"""Slots that a tier owns are never lent where they are whole and wanted, and are taken back where it has waited too long."""

import pytest

from headrace.contracts.commands import Cancel, Run
from headrace.contracts.explanations import Closed, Gate
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.scheduler.core import headroom
from tests.support.scheduler.asking import why
from tests.support.scheduler.owned_slots import end, full_of, give_back, preempted, reported


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


@pytest.mark.interpreted
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
        assert Closed(gate=Gate.STOPPED_OFTEN, limit=0, used=0) in why(case, waiting).closed
    assert len(case.commands(Run)) == ran
    monkeypatch.undo()
    case.run(300)
    assert len(case.commands(Run)) == ran + 1
    assert Gate.STOPPED_OFTEN not in {each.gate for each in why(case, behind.id).closed}


@pytest.mark.parametrize("percent", [0, 10])
def test_nobody_is_stopped_who_is_not_preemptible_or_for_a_tier_without_headroom(percent: int) -> None:
    case = full_of("standard" if percent else "batch", percent=percent)
    case.submit(into="interactive")
    case.run(3_000)
    assert preempted(case) == []


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
