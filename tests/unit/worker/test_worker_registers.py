"""A worker serves under one boot: registered, known by its reports, fenced by each new owner, buried and registered anew."""

import pytest
from msgspec.structs import replace

from headrace.contracts.commands import Buried, Fence
from headrace.contracts.failures import FailureKind
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.reports import MOST_RAN, Report
from headrace.contracts.values import Failure
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.protocol.inputs import BackendSeen, LaneLost, Work
from headrace.inference_worker.protocol.outputs import (
    FindLane,
    FollowLane,
    ReadEpoch,
    SendPing,
)
from tests.unit.worker.scripted_world import ANSWER, S, World, kinds, loses_workers, run_of


def test_it_obeys_the_lane_only_after_its_registration_is_acknowledged_and_the_epoch_read() -> None:
    world = World(epoch=7)
    world.drops = lambda _: True
    world.pass_time(1 * S)
    assert kinds(world.done) == [FindLane]  # the report isn't acknowledged: nothing more happens
    world.drops = lambda _: False
    world.pass_time(1 * S)
    assert kinds(world.done) == [FindLane, ReadEpoch, FollowLane]
    assert (world.report.epoch, world.report.lane, world.report.limit) == (7, 4, 2)


def test_it_reports_twice_a_second_with_its_position_and_what_it_holds() -> None:
    world = World().serve()
    before = len(world.records(Report))
    attempt = world.run(1)
    world.pass_time(5 * S)
    assert 9 <= len(world.records(Report)) - before <= 11
    assert world.held() == {attempt}
    assert world.report.position >= world.position - 1


def test_a_fence_is_answered_at_once_with_the_new_epoch_and_a_command_of_the_old_one_is_dropped() -> None:
    world = World().serve()
    world.turn(2)
    world.send(Fence(epoch=5))
    world.run(1, epoch=4)
    world.turn(2)
    assert world.report.epoch == 5
    assert world.report.position == world.position
    assert world.started() == []
    accepted = world.run(2, epoch=5)
    world.turn()
    assert world.started() == [accepted]


def test_who_answers_a_fence_tells_which_prompts_it_began_last_and_tells_it_once() -> None:
    world = World(limit=2 * MOST_RAN).serve()
    world.turn(2)
    names = [f"{number:08}" for number in (*range(MOST_RAN + 10), 20)]
    for number, prefix in enumerate([*names, ""]):
        run = run_of(number, boot=world.boot)
        world.send(Work(replace(run, request=replace(run.request, prefix=prefix)), b"{}"))
    world.turn(2)
    assert not any(report.ran for report in world.records(Report)), "nobody has asked"
    world.send(Fence(epoch=5))
    world.turn(20)
    [told] = [report.ran for report in world.records(Report) if report.ran]
    assert len(told) == MOST_RAN
    assert told == (*names[10:20], *names[21:])


def test_a_command_for_another_boot_is_not_obeyed() -> None:
    world = World().serve()
    world.send(Work(run_of(1, boot="f" * 32)))
    world.turn(2)
    assert world.started() == []


@pytest.mark.parametrize("how", ["buried", "silent", "deaf", "lost"])
def test_a_boot_that_is_buried_silent_or_deaf_aborts_everything_and_registers_anew(how: str) -> None:
    world = World().serve()
    old = world.boot
    attempt = world.run(1)
    world.turn()
    if how == "buried":
        world.send(Buried(epoch=1, boot=world.boot))
        world.turn()
    elif how == "silent":
        world.drops = loses_workers
        world.pass_time(31 * S)
        world.drops = lambda _: False
    elif how == "deaf":
        world.pings_return = False
        world.pass_time(7 * S)
        world.pings_return = True
    else:
        world.give(LaneLost(world.boot))
    world.pass_time(2 * S)
    assert world.abort_all_seen()
    assert world.boot > old
    assert (world.report.boot, world.held()) == (world.boot, set())
    world.end(attempt, ANSWER)  # a late end of the old boot's call writes nothing
    world.turn(3)
    assert world.records(ResultRecord) == []


def test_a_burial_by_an_older_owner_is_not_believed() -> None:
    world = World(epoch=3).serve()
    world.send(Buried(epoch=2, boot=world.boot))
    world.pass_time(1 * S)
    assert not world.abort_all_seen()


def test_an_unacknowledged_ping_and_a_paused_process_do_not_blame_the_lane() -> None:
    world = World().serve()
    world.drops = lambda output: isinstance(output, SendPing)
    world.pass_time(10 * S)
    assert not world.abort_all_seen()
    world.drops, world.pings_return = (lambda _: False), False
    world.pass_time(2 * S)
    world.boot_ms += 20_000  # the whole process stood still
    world.turn()
    assert not world.abort_all_seen()


def test_a_backend_that_is_gone_shows_in_the_next_report() -> None:
    world = World().serve()
    attempt = world.run(1)
    world.turn()
    world.end(attempt, Outcome(failure=Failure(kind=FailureKind.BACKEND_UNAVAILABLE), started=False))
    world.turn(3)
    assert (world.report.healthy, world.core.ready) == (False, False)
    world.give(BackendSeen(True))
    world.turn(3)
    assert (world.report.healthy, world.core.ready) == (True, True)


def test_a_process_that_gives_its_boot_up_says_so_in_the_next_one() -> None:
    world = World().serve()
    assert world.report.instead_of is None
    given_up = world.boot
    world.send(Buried(epoch=1, boot=given_up))
    world.turn(8)
    assert world.report.boot != given_up
    assert world.report.instead_of == given_up
