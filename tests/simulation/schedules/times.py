"""Clocks that are wrong, and ids that come again: within the time for which they are kept. Offered by schedules.every."""

from headrace.contracts.failures import FailureKind
from tests.simulation.schedules.schedule import schedule, wrong_if
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene

_LONGER_MS = 965_000
"""Ids that were finished are kept for a quarter of an hour."""
_HOUR_MS = 3_600_000


@schedule
def an_owners_clock_is_put_back_while_a_retry_waits() -> list[str]:
    scene = Scene()
    asked = scene.running(last_ms=300, fail_as=FailureKind.BACKEND_ERROR)
    owner = scene.owning()
    scene.until(lambda: scene.runs_of(asked)[0].ended_ms is not None, "a failure")
    scene.calls(last_ms=300)
    scene.run_for(30)
    owner.clock.wall_off_ms -= _HOUR_MS
    scene.run_for(500)
    return wrong_if(len(scene.runs_of(asked)) != 2, "D: a clock held up a retry") + scene.settled()


@schedule
def a_workers_clock_is_ahead_when_it_fails() -> list[str]:
    scene = Scene()
    asked = scene.running(last_ms=300, fail_as=FailureKind.BACKEND_ERROR)
    scene.workers[0].clock.wall_off_ms += _HOUR_MS
    scene.until(lambda: scene.runs_of(asked)[0].ended_ms is not None, "a failure")
    scene.calls(last_ms=300)
    scene.run_for(500)
    return wrong_if(len(scene.runs_of(asked)) != 2, "D: a clock held up a retry") + scene.settled()


@schedule
def an_id_is_written_twice() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=3_000)
    asked = scene.submit()
    scene.callers.write_again_now(asked)
    return scene.settled()


@schedule
def an_id_is_written_again_after_a_clock_was_wrong() -> list[str]:
    scene = Scene()
    owner = scene.begin()
    asked = scene.submit()
    scene.until(lambda: bool(scene.database.results()), "a result")
    scene.run_for(500)
    owner.clock.wall_off_ms += _HOUR_MS
    scene.run_for(2_500)
    owner.clock.wall_off_ms -= _HOUR_MS
    scene.callers.write_again_now(asked)
    scene.run_for(1_000)
    return scene.settled()


@schedule
def an_id_is_written_again_after_a_takeover() -> list[str]:
    scene = Scene()
    owner = scene.begin()
    asked = scene.submit()
    scene.until(lambda: bool(scene.database.results()), "a result")
    scene.run_for(2_500)
    owner.kill()
    scene.until(lambda: scene.owner() is not None and scene.owning() is not owner, "an owner")
    scene.callers.write_again_now(asked)
    owner.start()
    scene.run_for(1_000)
    return scene.settled()


@schedule
def a_head_is_stuck_for_longer_than_ids_are_kept() -> list[str]:
    scene = Scene(Cast(limit=3, window=8))
    scene.running(last_ms=30_000)
    owner = scene.owning()
    scene.calls(last_ms=200)
    rest = [scene.submit() for _ in range(3)]
    for one in rest:
        scene.until_runs(one)
    scene.run_for(2_000)
    scene.owns_for_longer(_LONGER_MS)
    scene.run_for(2_500)
    owner.kill()
    scene.until(lambda: scene.stage.seen["takeover"] > 1, "a takeover")
    owner.start()
    return scene.settled()
