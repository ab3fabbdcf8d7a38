"""Written schedules: runs that steer the faults exactly, for what chance meets too seldom. Each returns what is wrong.

Run by tests/simulation/test_schedules.py, where nothing may be wrong, and by the mutants, where something must be.
"""

from collections.abc import Callable
from datetime import timedelta

from headrace.contracts.failures import FailureKind
from headrace.contracts.topics import TopicKind
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene

Schedule = Callable[[], list[str]]
_LONGER_MS = 965_000
"""Ids that were finished are kept for a quarter of an hour."""
_HOUR_MS = 3_600_000


def wrong_if(condition: bool, sentence: str) -> list[str]:
    """The sentence, where it is so."""
    return [sentence] if condition else []


def a_standby_that_reads_late_takes_nothing_over() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.run_for(2_000)
    scene.late(scene.standby(), TopicKind.STATE, 20_000)
    scene.answer_late(scene.standby(), 20_000)
    scene.run_for(20_000)
    return wrong_if(scene.stage.seen["takeover"] > 1, "a living owner was disturbed") + scene.settled()


def two_standbys_claim_at_once() -> list[str]:
    scene = Scene(Cast(schedulers=3))
    owner = scene.begin()
    owner.kill()
    scene.until(lambda: bool(scene.claiming()), "a claim")
    scene.hold(scene.claiming()[0], 7_000)
    scene.run_for(9_000)
    owner.start()
    return scene.settled()


def a_worker_answers_late() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    owner = scene.begin()
    scene.calls(last_ms=15_000)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.run_for(1_500)
    owner.kill()
    scene.until(lambda: bool(scene.claiming()), "a claim")
    scene.late(scene.worker_of(scene.runs_of(asked)[0]), TopicKind.WORK, 3_500)
    scene.run_for(6_000)
    owner.start()
    return scene.settled()


def a_command_is_lost_and_nothing_follows_it() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.lose_next(TopicKind.WORK)
    scene.submit()
    return scene.settled()


def an_outcome_is_written_between_claim_and_answer() -> list[str]:
    scene = Scene()
    owner, worker = scene.begin(), scene.workers[0]
    scene.calls(last_ms=5_000)
    asked = scene.submit()
    scene.until_runs(asked)
    standby = scene.standby()
    owner.kill()
    scene.until(lambda: standby.core is not None, "a takeover")
    scene.late(standby, TopicKind.ATTEMPTS, 6_000)
    scene.late(worker, TopicKind.WORK, 4_000)
    scene.until(lambda: scene.runs_of(asked)[0].ended_ms is not None, "an end")
    owner.start()
    return scene.settled()


def an_outcome_is_read_late_by_a_new_owner() -> list[str]:
    scene = Scene()
    owner = scene.begin()
    scene.calls(last_ms=1_500)
    asked = scene.submit()
    scene.until_runs(asked)
    standby = scene.standby()
    scene.late(standby, TopicKind.ATTEMPTS, 15_000)
    owner.kill()
    scene.until(lambda: standby.core is not None, "a takeover")
    scene.run_for(3_000)
    owner.start()
    return scene.settled()


def an_old_report_lists_what_has_failed_since() -> list[str]:
    """The next owner reads the report of the failed attempt before its record in `attempts`, which no checkpoint passed. Who
    believes that report finds the request in two hands and stops the run that is the right one.
    """
    scene = Scene(Cast(workers=2, limit=1))
    owner = scene.begin()
    scene.calls(last_ms=900, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit()
    scene.until_runs(asked)
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


def an_attempt_id_comes_twice() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=3_000)
    asked = scene.submit()
    scene.until_runs(asked)
    work = scene.workers[0]._lane
    assert work is not None
    lane = next(iter(work[1].positions))
    log = scene.stage.broker.logs[lane]
    sent = [each.received for each in log.entries if each.received is not None]
    offset = max(each.offset for each in sent if b'"run"' in (each.header or b""))
    scene.say_again(TopicKind.WORK, offset, lane.partition)
    scene.run_for(500)
    return wrong_if(len(scene.runs_of(asked)) > 1, "D: an attempt ran twice") + scene.settled()


def a_paused_worker_finds_an_old_run_in_its_lane(*, lags: bool) -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=9_000)
    first, second = scene.workers
    second.kill()
    scene.run_for(6_000)
    second.start()
    scene.until(scene.all_serve, "a worker")
    second.backend_down_until_ms = scene.stage.now_ms + 3_000
    scene.run_for(2_500)
    asked = scene.callers.submit_now()
    first.pause(8_000)
    if lags:
        scene.late(first, TopicKind.WORK, 8_600)
        scene.run_for(7_000)
        scene.late(scene.owning(), TopicKind.WORKERS, 3_000)
    scene.until(lambda: asked.accepted_ms is not None, "an accepted request")
    return scene.settled()


def a_paused_worker_finds_an_old_run_at_once() -> list[str]:
    return a_paused_worker_finds_an_old_run_in_its_lane(lags=False)


def a_paused_worker_finds_an_old_run_after_its_report() -> list[str]:
    return a_paused_worker_finds_an_old_run_in_its_lane(lags=True)


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
    scene.until(lambda: bool(scene.claiming()), "a claim")
    scene.hold_logs(new, 9_000)
    scene.until(lambda: new.core is not None, "a takeover")
    worker.start()
    scene.until(scene.all_serve, "a worker")
    scene.out(TopicKind.STATE, old.paused_until_ms - scene.stage.now_ms + 4_000)
    scene.until_runs(asked)
    return scene.settled()


def a_worker_boots_while_owners_change() -> list[str]:
    """As before, but the worker begins to register before the new owner's checkpoint, and ends after it."""
    scene = Scene()
    worker = scene.workers[0]
    old = scene.begin(worker)
    new = scene.standby()
    old.pause(6_000)
    asked = scene.submit()
    scene.until(lambda: bool(scene.claiming()), "a claim")
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


def a_worker_comes_when_the_gate_is_open() -> list[str]:
    scene = Scene()
    worker = scene.workers[0]
    scene.begin(worker)
    asked = scene.submit()
    worker.start()
    scene.until_runs(asked)
    return scene.settled()


def a_report_of_a_dead_boot_comes_late() -> list[str]:
    """Its first and only one: nobody has heard of that boot before."""
    scene = Scene()
    scene.begin()
    worker = scene.workers[0]
    scene.calls(last_ms=6_000)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.report_of_an_older_boot(worker)
    scene.run_for(500)
    return scene.settled()


def a_caller_cancels_what_another_owner_released() -> list[str]:
    scene = Scene()
    owner = scene.begin()
    scene.calls(last_ms=100_000)
    asked = scene.submit()
    scene.until_runs(asked)
    new = scene.standby()
    owner.kill()
    scene.until(lambda: new.core is not None and new.core.state.open, "a takeover")
    scene.callers.cancel_now(asked)
    scene.run_for(8_000)
    ended = scene.runs_of(asked)[0].ended_ms is not None
    owner.start()
    return wrong_if(not ended, "F: what was cancelled runs on") + scene.settled()


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


def a_request_fails_again_and_again_over_owners() -> list[str]:
    scene = Scene()
    owner, worker = scene.begin(), scene.workers[0]
    scene.calls(last_ms=300, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit()
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


def an_owners_clock_is_put_back_while_a_retry_waits() -> list[str]:
    scene = Scene()
    owner = scene.begin()
    scene.calls(last_ms=300, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.until(lambda: scene.runs_of(asked)[0].ended_ms is not None, "a failure")
    scene.calls(last_ms=300)
    scene.run_for(30)
    owner.clock.wall_off_ms -= _HOUR_MS
    scene.run_for(500)
    return wrong_if(len(scene.runs_of(asked)) != 2, "D: a clock held up a retry") + scene.settled()


def a_workers_clock_is_ahead_when_it_fails() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=300, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.workers[0].clock.wall_off_ms += _HOUR_MS
    scene.until(lambda: scene.runs_of(asked)[0].ended_ms is not None, "a failure")
    scene.calls(last_ms=300)
    scene.run_for(500)
    return wrong_if(len(scene.runs_of(asked)) != 2, "D: a clock held up a retry") + scene.settled()


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


def a_head_is_stuck_for_longer_than_ids_are_kept() -> list[str]:
    scene = Scene(Cast(limit=3, window=8))
    owner = scene.begin()
    scene.calls(last_ms=30_000)
    head = scene.submit()
    scene.until_runs(head)
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


def a_worker_drains_while_it_runs() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=5_000)
    asked = scene.submit()
    scene.until_runs(asked)
    worker = scene.worker_of(scene.runs_of(asked)[0])
    worker.stop()
    more = [scene.submit() for _ in range(4)]
    scene.until(lambda: not worker.alive, "the drained worker's end", within_ms=9_000)
    started = [run for one in more for run in scene.runs_of(one) if run in worker.runs]
    worker.start()
    return wrong_if(bool(started), "a draining worker started something") + scene.settled()


def a_drain_ends_while_outcomes_are_unwritten() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=1_000)
    asked = scene.submit()
    scene.until_runs(asked)
    worker = scene.worker_of(scene.runs_of(asked)[0])
    for partition in range(2):
        scene.out(TopicKind.ATTEMPTS, 3_000, partition)
    worker.stop()
    scene.until(lambda: not worker.alive, "the drained worker's end", within_ms=12_000)
    worker.start()
    return scene.settled()


def a_drains_grace_is_over() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1, drain_grace=timedelta(seconds=1)))
    scene.begin()
    scene.calls(last_ms=8_000)
    asked = scene.submit()
    scene.until_runs(asked)
    worker = scene.worker_of(scene.runs_of(asked)[0])
    worker.stop()
    scene.until(lambda: not worker.alive, "the drained worker's end", within_ms=9_000)
    worker.start()
    return scene.settled()


def a_worker_is_paused_for_less_than_its_death() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=7_000)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.worker_of(scene.runs_of(asked)[0]).pause(2_300)
    return scene.settled()


def a_worker_loses_touch_for_half_a_minute() -> list[str]:
    scene = Scene(Cast(workers=1, limit=1))
    scene.begin()
    scene.calls(last_ms=60_000)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.hold(scene.workers[0], 45_000)
    scene.run_for(34_000)
    runs_on = scene.runs_of(asked)[0].ended_ms is None
    scene.calls(last_ms=500)
    return wrong_if(runs_on, "a worker that lost touch for 30 s runs on") + scene.settled()


def a_failed_attempt_was_streamed() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=2_000, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit(stream=True)
    scene.callers.follow_now(asked)
    scene.until_runs(asked)
    scene.calls(last_ms=2_000)
    return scene.settled()


def a_failed_attempt_was_streamed_at_the_other_door() -> list[str]:
    """Its caller can't be told to forget, and the stored text is another: the stream ends with an error."""
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=2_000, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit(stream=True)
    reader = scene.callers.stream_now(asked)
    scene.until_runs(asked)
    scene.calls(last_ms=2_000)
    bad = scene.settled()
    return (
        wrong_if(not (reader.had.text and reader.had.refused), "read: it wasn't told of the other text") + bad
    )


def an_attempt_between_two_shows_nothing() -> list[str]:
    """The second one's first chunk is lost, so nothing of it is shown; what the first showed is still to be forgotten."""
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=2_000, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit(stream=True)
    reader = scene.callers.follow_now(asked)
    scene.until_runs(asked, 2)
    had = reader.had.text
    scene.lose_next(TopicKind.REPLIES)
    scene.until(lambda: scene.runs_of(asked)[1].ended_ms is not None, "a second failure")
    shown = reader.had.text != had
    scene.calls(last_ms=2_000)
    bad = scene.settled()
    return wrong_if(shown or not had, "read: the second attempt showed something, or the first nothing") + bad


def a_reader_is_shown_a_gap_and_comes_back() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=4_000)
    asked = scene.submit(stream=True)
    reader = scene.callers.follow_now(asked)
    scene.until(lambda: bool(reader.had.text), "a text")
    reader.disconnect()
    scene.lose_next(TopicKind.REPLIES)
    scene.run_for(1_500)
    return scene.settled()


def a_worker_that_stood_still_streams_on() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=24_000)
    asked = scene.submit(stream=True)
    scene.callers.follow_now(asked)
    scene.until_runs(asked)
    first = scene.worker_of(scene.runs_of(asked)[0])
    scene.run_for(7_000)
    first.pause(13_000)
    scene.until_runs(asked, 2)
    scene.run_for(7_000)
    scene.late(first, TopicKind.WORK, 4_000)
    return scene.settled()


def a_result_is_lost_on_its_way() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.lose_next(TopicKind.RESULTS)
    scene.submit()
    return scene.settled()


def a_transaction_breaks_off() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.run_for(1_000)
    asked = scene.submit()
    scene.until(
        lambda: any(log.entries for w, log in scene.stage.broker.logs.items() if w.topic == "t.results"),
        "a result",
    )
    scene.database.breaks_off = True
    assert asked.record.id not in scene.database.results()
    return scene.settled()


def an_id_is_written_twice() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=3_000)
    asked = scene.submit()
    scene.callers.write_again_now(asked)
    return scene.settled()


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
        worker.backend_down_until_ms = scene.stage.now_ms
    bad = scene.settled()
    dead = scene.database.results().get(asked.record.id, {}).get("status") == "dead_lettered"
    return wrong_if(dead, "D: what never started has used up its attempts") + bad


def a_cancel_is_pending_at_a_checkpoint() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=20_000)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.late(scene.workers[0], TopicKind.WORK, 3_500)
    scene.callers.cancel_now(asked)
    return scene.settled()


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


def a_buried_worker_begins_anew() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=9_000)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.workers[0].pause(6_000)
    scene.run_for(6_500)
    scene.calls(last_ms=500)
    scene.submit()
    return scene.settled()


def a_worker_dies_between_its_two_records() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=500)
    asked = scene.submit()
    scene.until_runs(asked)
    worker = scene.worker_of(scene.runs_of(asked)[0])
    for partition in range(2):
        scene.out(TopicKind.RESULTS, 5_000, partition)
    scene.run_for(3_000)
    worker.kill()
    worker.start()
    return scene.settled()


def outcomes_take_longer_than_reports() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=500)
    asked = scene.submit()
    scene.until_runs(asked)
    worker = scene.workers[0]
    scene.until(lambda: bool(scene.runs_of(asked)[0].ended_ms), "an end")
    scene.run_for(2)
    worker._outcomes._channel.held_until_ms = scene.stage.now_ms + 3_000
    return scene.settled()


def a_report_is_read_before_the_outcome() -> list[str]:
    scene = Scene()
    owner = scene.begin()
    scene.calls(last_ms=800)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.late(owner, TopicKind.ATTEMPTS, 4_000)
    return scene.settled()


def a_worker_reports_before_it_reads_its_lane() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=2_000)
    scene.late(scene.workers[0], TopicKind.WORK, 3_500)
    scene.submit()
    return scene.settled()


def a_takeover_finds_work_in_flight() -> list[str]:
    scene = Scene()
    owner = scene.begin()
    scene.calls(last_ms=9_000)
    asked = scene.submit()
    scene.until_runs(asked)
    owner.kill()
    scene.run_for(7_000)
    owner.start()
    return scene.settled()


def a_worker_dies_for_good() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=3_000)
    asked = scene.submit()
    scene.until_runs(asked)
    scene.worker_of(scene.runs_of(asked)[0]).kill()
    return scene.settled()


def a_failure_of_an_older_attempt_comes_late() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=6_000, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit()
    scene.until_runs(asked)
    first = scene.worker_of(scene.runs_of(asked)[0])
    first.pause(8_000)
    scene.calls(last_ms=15_000)
    scene.late(first, TopicKind.WORK, 9_500)
    return scene.settled()


def a_member_that_was_put_out_commits_what_it_holds() -> list[str]:
    """It stands still with an attempt in its hands that isn't committed, and goes on long after another committed that and
    more; it sees neither what is new in the log nor that it is no longer a member.
    """
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=300)
    scene.submit()
    scene.run_for(2_000)
    scene.submit()
    scene.until(lambda: bool(scene.holding(TopicKind.ATTEMPTS)), "a member that holds an attempt")
    zombie = scene.holding(TopicKind.ATTEMPTS)[0]
    zombie.pause(9_000)
    scene.late(zombie, TopicKind.ATTEMPTS, 9_500)
    scene.learns_late(zombie, 11_000)
    for _ in range(4):
        scene.submit()
    scene.run_for(12_000)
    return scene.settled()


def two_results_of_one_request() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=6_000)
    asked = scene.submit()
    scene.until_runs(asked)
    first = scene.worker_of(scene.runs_of(asked)[0])
    first.pause(8_000)
    scene.calls(last_ms=500)
    scene.late(first, TopicKind.WORK, 10_000)
    scene.run_for(13_000)
    return scene.settled()


def events_wait_while_all_members_die() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.run_for(1_000)
    for partition in range(2):
        scene.out(TopicKind.EVENTS, 6_000, partition)
    asked = scene.submit()
    scene.until(lambda: asked.record.id in scene.database.results(), "a result")
    scene.run_for(1_000)
    for member in scene.deliverers:
        member.kill()
        member.start()
    return scene.settled()


def result_delivery_is_away_for_long() -> list[str]:
    scene = Scene(Cast(limit=3))
    scene.begin()
    scene.calls(last_ms=200)
    for member in scene.deliverers:
        member.kill()
    for _ in range(8):
        scene.submit()
    scene.run_for(40_000)
    for member in scene.deliverers:
        member.start()
    return scene.settled()


SCHEDULES: dict[str, Schedule] = {
    schedule.__name__: schedule
    for schedule in (
        a_standby_that_reads_late_takes_nothing_over,
        two_standbys_claim_at_once,
        a_worker_answers_late,
        a_command_is_lost_and_nothing_follows_it,
        an_outcome_is_written_between_claim_and_answer,
        an_outcome_is_read_late_by_a_new_owner,
        an_old_report_lists_what_has_failed_since,
        an_attempt_id_comes_twice,
        a_paused_worker_finds_an_old_run_at_once,
        a_paused_worker_finds_an_old_run_after_its_report,
        an_old_owner_finds_a_new_worker,
        a_worker_boots_while_owners_change,
        a_worker_comes_when_the_gate_is_open,
        a_report_of_a_dead_boot_comes_late,
        a_caller_cancels_what_another_owner_released,
        a_fence_is_lost,
        an_owner_without_a_lease_ends_nothing,
        a_request_fails_again_and_again_over_owners,
        an_owners_clock_is_put_back_while_a_retry_waits,
        a_workers_clock_is_ahead_when_it_fails,
        an_id_is_written_again_after_a_clock_was_wrong,
        a_head_is_stuck_for_longer_than_ids_are_kept,
        an_id_is_written_again_after_a_takeover,
        a_worker_drains_while_it_runs,
        a_drain_ends_while_outcomes_are_unwritten,
        a_drains_grace_is_over,
        a_worker_is_paused_for_less_than_its_death,
        a_worker_loses_touch_for_half_a_minute,
        a_failed_attempt_was_streamed,
        a_failed_attempt_was_streamed_at_the_other_door,
        an_attempt_between_two_shows_nothing,
        a_reader_is_shown_a_gap_and_comes_back,
        a_worker_that_stood_still_streams_on,
        a_result_is_lost_on_its_way,
        a_transaction_breaks_off,
        an_id_is_written_twice,
        a_worker_hands_back_again_and_again,
        a_cancel_is_pending_at_a_checkpoint,
        an_old_owner_goes_on_with_its_workers,
        a_buried_worker_begins_anew,
        a_worker_dies_between_its_two_records,
        outcomes_take_longer_than_reports,
        a_report_is_read_before_the_outcome,
        a_worker_reports_before_it_reads_its_lane,
        a_takeover_finds_work_in_flight,
        a_worker_dies_for_good,
        a_failure_of_an_older_attempt_comes_late,
        a_member_that_was_put_out_commits_what_it_holds,
        two_results_of_one_request,
        events_wait_while_all_members_die,
        result_delivery_is_away_for_long,
    )
}
