"""When the owner writes its ticks: at an even pace while they come back, and never in a burst after they did not."""

import itertools

from headrace.contracts.codec import decode
from headrace.contracts.reports import Tick
from headrace.contracts.topics import TopicKind
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import STEP_MS, WALL, World, place

WORKERS = place(TopicKind.WORKERS)


class SlowWire(World):
    """Nothing goes wrong, and each record takes so long to its log."""

    def __init__(self, takes_ms: int) -> None:
        super().__init__(1, faults_end_ms=0)
        self.rng.choice = lambda _: takes_ms  # type: ignore[method-assign, assignment, return-value]


def tick_times(world: World, *, until_ms: int) -> list[int]:
    """When the ticks of one owner came into the log, in ms of the world."""
    owner = SimScheduler(world, 0)
    while world.now_ms < until_ms:
        world.advance()
        owner.turn()
    return [
        r.timestamp_ms - WALL
        for r in world.logs[WORKERS]
        if isinstance(decode(TopicKind.WORKERS, r.header), Tick)
    ]


def gaps(times: list[int]) -> list[int]:
    return [after - before for before, after in itertools.pairwise(times)]


def test_a_ticks_own_way_through_the_log_does_not_stretch_the_period() -> None:
    found = gaps(tick_times(SlowWire(200), until_ms=12_000))
    assert len(found) > 8
    assert set(found) == {500}


def test_a_slow_partition_still_gets_one_tick_at_a_time_with_room_between_for_reports() -> None:
    found = gaps(tick_times(SlowWire(600), until_ms=15_000))
    assert len(found) > 5
    assert all(600 + 250 <= gap <= 600 + 250 + 3 * STEP_MS for gap in found)


def test_ticks_that_waited_for_their_partition_are_followed_by_no_burst() -> None:
    world = SlowWire(25)
    world.faults_end_ms = 20_000
    world.rng.random = lambda: 1.0  # type: ignore[method-assign]
    back_ms = 12_000
    owner = SimScheduler(world, 0)
    while world.now_ms < 18_000:
        if world.now_ms == 6_000:
            world.out_until[WORKERS] = back_ms
        world.advance()
        owner.turn()
    times = [
        r.timestamp_ms - WALL
        for r in world.logs[WORKERS]
        if isinstance(decode(TopicKind.WORKERS, r.header), Tick)
    ]
    after = [time for time in times if time >= back_ms]
    assert not [time for time in times if 6_100 < time < back_ms]
    assert after[1] - after[0] >= 250
    assert set(gaps(after[1:])) == {500}
