"""Owners: claims, takeovers, and what a new owner learns too late of what went before. Offered by schedules.every."""

from headrace.contracts.failures import FailureKind
from headrace.contracts.topics import TopicKind
from tests.simulation.schedules.schedule import schedule, wrong_if
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene


@schedule
def two_standbys_claim_at_once() -> list[str]:
    scene = Scene(Cast(schedulers=3))
    owner = scene.begin()
    owner.kill()
    scene.until(lambda: bool(scene.claiming()), "a claim")
    scene.hold(scene.claiming()[0], 7_000)
    scene.run_for(9_000)
    owner.start()
    return scene.settled()


@schedule
def a_standby_that_reads_late_takes_nothing_over() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.run_for(2_000)
    scene.late(scene.standby(), TopicKind.STATE, 20_000)
    scene.answer_late(scene.standby(), 20_000)
    scene.run_for(20_000)
    return wrong_if(scene.stage.seen["takeover"] > 1, "a living owner was disturbed") + scene.settled()


@schedule
def an_outcome_is_written_between_claim_and_answer() -> list[str]:
    scene = Scene()
    asked = scene.running(last_ms=5_000)
    owner, standby = scene.owning(), scene.standby()
    owner.kill()
    scene.until(lambda: standby.core is not None, "a takeover")
    scene.late(scene.workers[0], TopicKind.WORK, 4_000)
    scene.run_for(500)  # for what a wrong gate would look for already
    scene.late(standby, TopicKind.ATTEMPTS, 6_000)
    scene.until(lambda: scene.runs_of(asked)[0].ended_ms is not None, "an end")
    owner.start()
    return scene.settled()


@schedule
def an_outcome_is_read_late_by_a_new_owner() -> list[str]:
    scene = Scene()
    scene.running(last_ms=1_500)
    owner, standby = scene.owning(), scene.standby()
    scene.late(standby, TopicKind.ATTEMPTS, 15_000)
    owner.kill()
    scene.until(lambda: standby.core is not None, "a takeover")
    scene.run_for(3_000)
    owner.start()
    return scene.settled()


@schedule
def an_old_report_lists_what_has_failed_since() -> list[str]:
    """The next owner reads the report of the failed attempt before its record in `attempts`, which no checkpoint passed. Who
    believes that report finds the request in two hands and stops the run that is the right one.
    """
    scene = Scene(Cast(workers=2, limit=1))
    asked = scene.running(last_ms=900, fail_as=FailureKind.BACKEND_ERROR)
    owner = scene.owning()
    scene.until(lambda: scene.runs_of(asked)[0].ended_ms is not None, "a failure")
    scene.calls(last_ms=14_000)
    scene.out(TopicKind.STATE, 2_000)
    scene.late(scene.standby(), TopicKind.ATTEMPTS, 10_000)
    scene.until_runs(asked, times=2)
    scene.run_for(1_200)
    owner.kill()
    scene.until(lambda: scene.stage.seen["takeover"] > 1, "a takeover")
    owner.start()
    bad = scene.settled()
    return wrong_if(len(scene.runs_of(asked)) != 2, "D: a change of owner made it run again") + bad


@schedule
def a_takeover_finds_work_in_flight() -> list[str]:
    scene = Scene()
    scene.running(last_ms=9_000)
    owner = scene.owning()
    owner.kill()
    scene.run_for(7_000)
    owner.start()
    return scene.settled()


@schedule
def a_worker_answers_late() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    asked = scene.running(last_ms=15_000)
    owner = scene.owning()
    scene.run_for(1_500)
    owner.kill()
    scene.until(lambda: bool(scene.claiming()), "a claim")
    scene.late(scene.worker_of(asked), TopicKind.WORK, 3_500)
    scene.run_for(6_000)
    owner.start()
    return scene.settled()


@schedule
def an_old_owner_finds_a_new_worker() -> list[str]:
    """The old owner stands still; another follows, of whom nothing but its checkpoint is heard yet; a worker comes; the old
    goes on while it can't learn that it was fenced.
    """
    scene = Scene()
    worker = scene.workers[0]
    old = scene.begin(worker)
    new = scene.standby()
    old.pause(6_000)
    asked = scene.submit()
    scene.until(lambda: scene.has_its_barrier(new), "a claim")
    scene.hold_logs(new, 9_000)
    scene.until(lambda: new.core is not None, "a takeover")
    worker.start()
    scene.until(scene.all_serve, "a worker")
    scene.out(TopicKind.STATE, old.paused_until_ms - scene.stage.now_ms + 4_000)
    scene.until_runs(asked)
    return scene.settled()


@schedule
def a_worker_boots_while_owners_change() -> list[str]:
    """As before, but the worker begins to register before the new owner's checkpoint, and ends after it."""
    scene = Scene()
    worker = scene.workers[0]
    old = scene.begin(worker)
    new = scene.standby()
    old.pause(6_000)
    asked = scene.submit()
    scene.until(lambda: scene.has_its_barrier(new), "a claim")
    scene.hold(new, 400)
    scene.hold_logs(new, 9_000)
    worker.start()
    scene.until(lambda: "registers" in scene.stage.notes[-1][2], "a worker that registers")
    scene.hold(worker, 300)
    scene.run_for(200)
    scene.hold(worker, 700)
    scene.until(lambda: new.core is not None, "a takeover")
    scene.until(scene.all_serve, "a worker")
    scene.out(TopicKind.STATE, old.paused_until_ms - scene.stage.now_ms + 4_000)
    scene.until_runs(asked)
    return scene.settled()


@schedule
def an_old_owner_goes_on_with_its_workers() -> list[str]:
    scene = Scene(Cast(workers=2, limit=2))
    old = scene.begin()
    new = scene.standby()
    scene.calls(last_ms=8_000)
    old.pause(7_000)
    scene.until(lambda: new.core is not None and new.core.state.open, "a takeover")
    scene.late(old, TopicKind.WORKERS, 20_000)
    scene.run_for(old.paused_until_ms - scene.stage.now_ms - 50)
    scene.out(TopicKind.STATE, 4_000)
    scene.submit()
    scene.submit()
    return scene.settled()


@schedule
def a_caller_cancels_what_another_owner_released() -> list[str]:
    scene = Scene()
    asked = scene.running(last_ms=100_000)
    owner, new = scene.owning(), scene.standby()
    owner.kill()
    scene.until(lambda: new.core is not None and new.core.state.open, "a takeover")
    scene.callers.cancel_now(asked)
    scene.run_for(8_000)
    ended = scene.runs_of(asked)[0].ended_ms is not None
    owner.start()
    return wrong_if(not ended, "F: what was cancelled runs on") + scene.settled()


@schedule
def a_cancel_is_pending_at_a_checkpoint() -> list[str]:
    scene = Scene()
    asked = scene.running(last_ms=20_000)
    scene.late(scene.workers[0], TopicKind.WORK, 3_500)
    scene.callers.cancel_now(asked)
    return scene.settled()


@schedule
def a_fence_is_lost() -> list[str]:
    scene = Scene()
    owner = scene.begin()
    new = scene.standby()
    scene.submit()
    owner.kill()
    scene.until(lambda: new.core is not None, "a takeover")
    scene.lose_next(TopicKind.WORK)
    scene.submit()
    owner.start()
    return scene.settled()


@schedule
def an_owner_without_a_lease_ends_nothing() -> list[str]:
    scene = Scene()
    scene.begin()
    worker = scene.workers[0]
    worker.kill()
    scene.run_for(6_000)
    asked = scene.submit()
    scene.run_for(500)
    scene.out(TopicKind.STATE, 12_000)
    scene.run_for(4_000)
    scene.callers.cancel_now(asked)
    scene.run_for(5_000)
    results = [log for where, log in scene.stage.broker.logs.items() if where.topic.endswith("results")]
    early = any(log.entries for log in results)
    worker.start()
    return wrong_if(early, "B: an owner without a lease wrote a terminal record") + scene.settled()


@schedule
def a_request_fails_again_and_again_over_owners() -> list[str]:
    scene = Scene()
    asked = scene.running(last_ms=300, fail_as=FailureKind.BACKEND_ERROR)
    owner, worker = scene.owning(), scene.workers[0]
    scene.until_runs(asked, 2)
    worker.stop()
    scene.until(lambda: not worker.alive, "the drained worker's end")
    scene.run_for(2_500)
    owner.stop()
    scene.until(lambda: scene.owner() is not None and not owner.alive, "another owner")
    owner.start()
    worker.start()
    bad = scene.settled()
    return wrong_if(len(scene.runs_of(asked)) != 4, f"D: it ran {len(scene.runs_of(asked))} times") + bad
