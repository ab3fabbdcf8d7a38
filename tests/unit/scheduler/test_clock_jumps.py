"""Wall clocks that jump by an hour: durations stay what they are, in one owner's life and over a change of owner."""

import pytest

from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure
from headrace.scheduler.decisions.when_to_retry import left_to_wait_ms
from headrace.scheduler.state.recent import ByMinute
from tests.support.scheduler.case import Case
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import WALL

HOUR_MS = 3_600_000
JUMPS = pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
BUSY = Failure(kind=FailureKind.BACKEND_UNAVAILABLE, retry_after_ms=6_000)
"""Its backend asked to be spared for 6 s; 2 s of back-off at most come on top."""


def failed(case: Case) -> RequestRecord:
    """A request whose first attempt has failed, as its owner knows."""
    record = case.submit()
    case.run(600)
    case.answer(case.commands(Run)[-1], Verdict.RETRY_AT, failure=BUSY)
    case.run(1_000)
    return record


def waited_ms(case: Case, epoch: int = 1) -> int:
    """How long, virtual ms from the failure on, until it ran again; its worker says twice a second that it is there."""
    failed_ms, runs = case.world.now_ms - 1_000, len(case.commands(Run))
    while len(case.commands(Run)) == runs:
        case.report(epoch=epoch)
        case.run(500)
        assert case.world.now_ms - failed_ms < 30_000, "it doesn't run again"
    return case.world.now_ms - failed_ms


@JUMPS
def test_a_clock_that_jumps_makes_no_retry_early_or_late(case: Case, by_ms: int) -> None:
    failed(case)
    case.world.wall_off_ms += by_ms
    assert 6_000 <= waited_ms(case) <= 9_000


@JUMPS
def test_a_workers_wrong_clock_makes_no_retry_early_or_late(case: Case, by_ms: int) -> None:
    case.submit()
    case.run(600)
    told_ms = case.world.now.wall_ms + by_ms + 6_000
    case.answer(case.commands(Run)[-1], Verdict.RETRY_AT, failure=BUSY, retry_ms=told_ms)
    case.run(1_000)
    assert 6_000 <= waited_ms(case) <= 9_000


@pytest.mark.parametrize("by_ms", [0, -HOUR_MS])
def test_a_new_owner_whose_clock_is_behind_waits_no_longer_than_the_whole_wait(
    case: Case, by_ms: int
) -> None:
    failed(case)
    case.run(1_500)  # a checkpoint says it
    case.owner.crash()
    case.world.wall_off_ms += by_ms
    case.owner = SimScheduler(case.world, 0)
    assert 3_500 <= waited_ms(case, epoch=2) <= 12_000


def test_what_is_left_to_wait_is_never_more_than_the_whole() -> None:
    assert left_to_wait_ms(WALL + 400, 500, WALL) == 400
    assert left_to_wait_ms(WALL + 400, 500, WALL - HOUR_MS) == 500
    assert left_to_wait_ms(WALL + 400, 500, WALL + HOUR_MS) == 0
    assert left_to_wait_ms(WALL + 9 * HOUR_MS, None, WALL) == HOUR_MS, (
        "of a record of old that doesn't say it"
    )


@JUMPS
def test_an_id_just_finished_is_known_although_a_clock_jumps(case: Case, by_ms: int) -> None:
    record = case.submit()
    case.run(600)
    case.answer(case.commands(Run)[-1], Verdict.DONE, status=Status.SUCCEEDED)
    case.run(1_000)
    case.world.wall_off_ms += by_ms
    case.run(3_000)
    owner = case.owner.core
    assert owner is not None
    assert record.id in owner.state.recent


def test_what_an_earlier_owner_finished_is_kept_by_one_whose_clock_is_ahead(case: Case) -> None:
    record = case.submit()
    case.run(600)
    case.answer(case.commands(Run)[-1], Verdict.DONE, status=Status.SUCCEEDED)
    case.run(3_000)
    case.owner.crash()
    case.world.wall_off_ms += HOUR_MS
    case.owner = SimScheduler(case.world, 0)
    case.run(6_000)
    owner = case.owner.core
    assert owner is not None
    assert owner.state.epoch == 2
    assert record.id in owner.state.recent
    assert case.world.records(TopicKind.RESULTS) == []


def test_ids_are_forgotten_after_a_quarter_of_an_hour_and_what_is_very_old_at_once() -> None:
    kept: ByMinute[str] = ByMinute()
    kept.add("found", 60)
    kept.add("own", 101)
    assert kept.forget_before(116, since=100) == [(60, 0)]
    kept.add("later", 117)
    assert kept.forget_before(117, since=100) == [(101, 0)]
    kept.add("ancient", 1)
    assert kept.forget_before(130, since=130) == [(1, 0)]
    assert "later" in kept
