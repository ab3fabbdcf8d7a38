"""A worker whose reports aren't acknowledged starts nothing more, and finishes what it holds."""

from headrace.contracts.failures import FailureKind
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from tests.unit.worker.scripted_world import ANSWER, S, World, loses_workers


def test_a_lapsed_worker_hands_a_run_back_unstarted_and_goes_on_with_what_it_holds() -> None:
    world = World().serve()
    first = world.run(1)
    world.turn()
    world.drops = loses_workers
    world.pass_time(3 * S)
    second = world.run(2)
    world.turn(3)
    (record,) = world.records(AttemptRecord)
    assert (record.attempt, record.verdict, record.started) == (second, Verdict.RETRY_AT, False)
    assert record.failure.kind is FailureKind.WORKER_NOT_LEASED
    world.end(first, ANSWER)
    world.turn(3)
    assert [r.attempt for r in world.records(ResultRecord)] == [first]


def test_a_worker_that_was_paused_starts_nothing_that_lay_in_its_lane_before_its_next_ping() -> None:
    world = World().serve()
    world.pass_time(2 * S)
    world.pings_return = False
    world.boot_ms += 10_000  # it stood still, and may have been buried meanwhile
    world.turn(4)
    assert world.core.boot is not None
    assert not world.core.boot.lease.lapsed(world.now)
    old = world.run(1)
    world.turn(3)
    (record,) = world.records(AttemptRecord)
    assert (record.attempt, record.verdict, record.started) == (old, Verdict.RETRY_AT, False)
    world.pings_return = True
    world.pass_time(2 * S)
    fresh = world.run(2)
    world.turn(2)
    assert world.started() == [fresh]


def test_a_lapsed_worker_hands_a_run_back_at_once_also_when_all_its_slots_are_taken() -> None:
    world = World(limit=1).serve()
    world.run(1)
    world.turn()
    world.drops = loses_workers
    world.pass_time(3 * S)
    second = world.run(2)
    world.turn(3)
    assert [r.attempt for r in world.records(AttemptRecord)] == [second]
