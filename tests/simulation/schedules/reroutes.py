"""Two pools: what waits where no backend is goes to the other, while owners die or are paused at each step of that.

Offered by schedules.every.
"""

from collections.abc import Callable

from headrace.bus.messages import Place
from headrace.contracts.topics import TopicKind
from tests.simulation.schedules.schedule import schedule, wrong_if
from tests.simulation.world.callers import Asked
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene
from tests.simulation.world.schedulers import SimScheduler
from tests.simulation.world.stage import AWAY
from tests.support.scheduler.pure import NAMES, POOL

_STEPS = range(0, 2_400, 300)
"""Milliseconds after the first intent may have been made."""


def falling_back(count: int = 3, last_ms: int = 300) -> tuple[Scene, list[Asked]]:
    """A scene in which so many requests are about to go to the other pool; the first worker, of their own, isn't there."""
    scene = Scene(Cast(workers=1, away=1, limit=4))
    scene.begin(scene.workers[0])
    scene.calls(last_ms=last_ms)
    asked = [scene.submit() for _ in range(count)]
    scene.until(lambda: home_reroutes(scene) == count, "reroutes")
    return scene, asked


def home_reroutes(scene: Scene) -> int:
    """How many requests are on their way."""
    owner = scene.owner()
    return 0 if owner is None else len(owner.state.reroutes)


def away_owner(scene: Scene) -> SimScheduler:
    """The process that owns the other pool."""
    core = scene.owners()[1]
    return next(each for each in scene.away_schedulers if each.core is core)


def ran_once(scene: Scene, asked: list[Asked], *pools: str) -> list[str]:
    """What is wrong at rest, in so far as each should have run once, in one of these pools."""
    if bad := scene.settled():
        return bad
    runs = [len(scene.runs_of(each)) for each in asked]
    rows = scene.database.results_of([each.record.id for each in asked]).values()
    where = sorted({str(row["pool"]) for row in rows})
    return wrong_if(runs != [1] * len(asked) or not set(where) <= set(pools), f"D: {runs} runs, in {where}")


def at_each_step(disturb: Callable[[Scene], None], *pools: str) -> list[str]:
    """One scene for each step, disturbed there. `pools`: where requests may end."""
    for after_ms in _STEPS:
        scene, asked = falling_back()
        scene.run_for(after_ms)
        disturb(scene)
        if bad := ran_once(scene, asked, *(pools or (AWAY,))):
            return [f"after {after_ms} ms: {each}" for each in bad]
    return []


@schedule
def an_owner_dies_while_its_requests_go_to_another_pool() -> list[str]:
    def kill(scene: Scene) -> None:
        owner = scene.owning()
        owner.kill()
        scene.until(lambda: scene.owner() is not None, "a takeover")
        owner.start()

    return at_each_step(kill)


@schedule
def a_backend_comes_back_while_its_requests_go_to_another_pool() -> list[str]:
    """Its owner dies, too: the next one must not run what stands in the other pool's log."""

    def come_back(scene: Scene) -> None:
        owner = scene.owning()
        owner.kill()
        scene.workers[0].start()
        scene.until(lambda: scene.owner() is not None, "a takeover")
        owner.start()

    return at_each_step(come_back, AWAY, POOL)


@schedule
def an_owner_is_paused_while_its_requests_go_to_another_pool() -> list[str]:
    def pause(scene: Scene) -> None:
        scene.owning().pause(8_000)
        scene.run_for(10_000)

    return at_each_step(pause)


@schedule
def the_other_pools_owner_dies_while_requests_come_to_it() -> list[str]:
    def kill(scene: Scene) -> None:
        owner = away_owner(scene)
        owner.kill()
        scene.until(lambda: scene.owners()[1] is not None, "a takeover")
        owner.start()

    return at_each_step(kill)


@schedule
def the_other_pools_log_is_away_while_the_owner_dies() -> list[str]:
    def cut(scene: Scene) -> None:
        for tier in ("interactive", "batch"):
            for partition in range(2):
                where = Place(NAMES.of(TopicKind.REQUESTS, pool=AWAY, tier=tier), partition)
                scene.stage.broker.logs[where].out_until_ms = scene.stage.now_ms + 6_000
        scene.run_for(1_500)
        scene.owning().kill()

    return at_each_step(cut)


@schedule
def a_cancel_follows_a_request_that_went_to_another_pool() -> list[str]:
    for after_ms in (*_STEPS, 4_000):
        scene, (asked,) = falling_back(count=1, last_ms=20_000)
        scene.run_for(after_ms)
        scene.callers.cancel_now(asked)
        bad = scene.settled()
        rows = scene.database.results_of([asked.record.id]).values()
        stored = [str(row["status"]) for row in rows]
        bad += wrong_if(stored != ["cancelled"], f"F: it was cancelled, and is stored as {stored}")
        if bad:
            return [f"after {after_ms} ms: {each}" for each in bad]
    return []
