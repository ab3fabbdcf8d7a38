"""Workers: what comes to their lanes, what they report, their drains, pauses and deaths. Offered by schedules.every."""

from datetime import timedelta

from headrace.contracts.topics import TopicKind
from tests.simulation.schedules.schedule import schedule, wrong_if
from tests.simulation.world.callers import Asked
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene


@schedule
def a_command_is_lost_and_nothing_follows_it() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.lose_next(TopicKind.WORK)
    scene.submit()
    return scene.settled()


@schedule
def an_attempt_id_comes_twice() -> list[str]:
    scene = Scene()
    asked = scene.running(last_ms=3_000)
    work = scene.workers[0]._lane
    assert work is not None
    lane = next(iter(work[1].positions))
    log = scene.stage.broker.logs[lane]
    sent = [each.received for each in log.entries if each.received is not None]
    offset = max(each.offset for each in sent if b'"run"' in (each.header or b""))
    scene.say_again(TopicKind.WORK, offset, lane.partition)
    scene.run_for(500)
    return wrong_if(len(scene.runs_of(asked)) > 1, "D: an attempt ran twice") + scene.settled()


def _a_paused_worker_finds_an_old_run(*, lags: bool) -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=9_000)
    first, second = scene.workers
    second.kill()
    scene.run_for(6_000)
    second.start()
    scene.until(scene.all_serve, "a worker")
    second.backend.down_until_ms = scene.stage.now_ms + 3_000
    scene.run_for(2_500)
    asked = scene.callers.submit_now()
    first.pause(8_000)
    if lags:
        scene.late(first, TopicKind.WORK, 8_600)
        scene.run_for(7_000)
        scene.late(scene.owning(), TopicKind.WORKERS, 3_000)
    scene.until(lambda: asked.accepted_ms is not None, "an accepted request")
    return scene.settled()


@schedule
def a_paused_worker_finds_an_old_run_at_once() -> list[str]:
    return _a_paused_worker_finds_an_old_run(lags=False)


@schedule
def a_paused_worker_finds_an_old_run_after_its_report() -> list[str]:
    return _a_paused_worker_finds_an_old_run(lags=True)


@schedule
def a_worker_comes_when_the_gate_is_open() -> list[str]:
    scene = Scene()
    worker = scene.workers[0]
    scene.begin(worker)
    asked = scene.submit()
    worker.start()
    scene.until_runs(asked)
    return scene.settled()


@schedule
def a_report_of_a_dead_boot_comes_late() -> list[str]:
    """Its first and only one: nobody has heard of that boot before."""
    scene = Scene()
    scene.running(last_ms=6_000)
    scene.report_of_an_older_boot(scene.workers[0])
    scene.run_for(500)
    return scene.settled()


@schedule
def a_worker_reports_before_it_reads_its_lane() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=2_000)
    scene.late(scene.workers[0], TopicKind.WORK, 3_500)
    scene.submit()
    return scene.settled()


@schedule
def a_worker_drains_while_it_runs() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    worker = scene.worker_of(scene.running(last_ms=5_000))
    worker.stop()
    more = [scene.submit() for _ in range(4)]
    scene.until(lambda: not worker.alive, "the drained worker's end", within_ms=9_000)
    started = [run for one in more for run in scene.runs_of(one) if run in worker.runs]
    worker.start()
    return wrong_if(bool(started), "a draining worker started something") + scene.settled()


@schedule
def a_drain_ends_while_outcomes_are_unwritten() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    worker = scene.worker_of(scene.running(last_ms=1_000))
    for partition in range(2):
        scene.out(TopicKind.ATTEMPTS, 3_000, partition)
    worker.stop()
    scene.until(lambda: not worker.alive, "the drained worker's end", within_ms=12_000)
    worker.start()
    return scene.settled()


@schedule
def a_drains_grace_is_over() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1, drain_grace=timedelta(seconds=1)))
    worker = scene.worker_of(scene.running(last_ms=8_000))
    worker.stop()
    scene.until(lambda: not worker.alive, "the drained worker's end", within_ms=9_000)
    worker.start()
    return scene.settled()


@schedule
def a_worker_is_paused_for_less_than_its_death() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.worker_of(scene.running(last_ms=7_000)).pause(2_300)
    return scene.settled()


@schedule
def a_worker_loses_touch_for_half_a_minute() -> list[str]:
    scene = Scene(Cast(workers=1, limit=1))
    asked = scene.running(last_ms=60_000)
    scene.hold(scene.workers[0], 45_000)
    scene.run_for(34_000)
    runs_on = scene.runs_of(asked)[0].ended_ms is None
    scene.calls(last_ms=500)
    return wrong_if(runs_on, "a worker that lost touch for 30 s runs on") + scene.settled()


@schedule
def a_buried_worker_begins_anew() -> list[str]:
    scene = Scene()
    scene.running(last_ms=9_000)
    scene.workers[0].pause(6_000)
    scene.run_for(6_500)
    scene.calls(last_ms=500)
    scene.submit()
    return scene.settled()


@schedule
def a_worker_has_more_to_do_than_it_may_hold() -> list[str]:
    scene = Scene(Cast(workers=1, limit=2))
    scene.begin()
    scene.calls(last_ms=1_500)
    made = [scene.submit() for _ in range(5)]
    bad = scene.settled()
    return wrong_if(_most_at_a_time(scene, made) != 2, "limits: two slots, and not two at a time") + bad


@schedule
def a_cache_holds_fewer_than_the_limit() -> list[str]:
    """Each request is taken to need up to 14 tokens."""
    scene = Scene(Cast(workers=1, limit=3, cache_tokens=30))
    scene.begin()
    scene.calls(last_ms=1_500)
    scene.run_for(2_500)
    made = [scene.submit() for _ in range(5)]
    bad = scene.settled()
    return wrong_if(_most_at_a_time(scene, made) != 2, "limits: a cache for two, and not two at a time") + bad


def _most_at_a_time(scene: Scene, made: list[Asked]) -> int:
    runs = [run for asked in made for run in scene.runs_of(asked)]
    return max(sum(run.began_ms <= one.began_ms < (run.ended_ms or 10**12) for run in runs) for one in runs)


@schedule
def a_worker_dies_for_good() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.worker_of(scene.running(last_ms=3_000)).kill()
    return scene.settled()


@schedule
def a_worker_hands_back_again_and_again() -> list[str]:
    scene = Scene(Cast(workers=1, limit=1))
    scene.begin()
    worker = scene.workers[0]
    scene.calls(last_ms=500)
    asked = scene.callers.submit_now()
    for _ in range(6):
        worker.pause(2_700)
        scene.run_for(3_000)
        if scene.runs_of(asked):
            break
        worker.backend.down_until_ms = scene.stage.now_ms
    bad = scene.settled()
    dead = scene.database.results().get(asked.record.id, {}).get("status") == "dead_lettered"
    return wrong_if(dead, "D: what never started has used up its attempts") + bad
