"""Results: on their way from the worker to its logs, and from there to the database and other services.

Offered by schedules.every.
"""

from headrace.contracts.failures import FailureKind
from headrace.contracts.topics import TopicKind
from tests.simulation.schedules.schedule import schedule
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene


@schedule
def a_result_is_lost_on_its_way() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.lose_next(TopicKind.RESULTS)
    scene.submit()
    return scene.settled()


@schedule
def a_worker_dies_between_its_two_records() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    worker = scene.worker_of(scene.running(last_ms=500))
    for partition in range(2):
        scene.out(TopicKind.RESULTS, 5_000, partition)
    scene.run_for(3_000)
    worker.kill()
    worker.start()
    return scene.settled()


@schedule
def outcomes_take_longer_than_reports() -> list[str]:
    scene = Scene()
    asked = scene.running(last_ms=500)
    worker = scene.workers[0]
    scene.until(lambda: bool(scene.runs_of(asked)[0].ended_ms), "an end")
    scene.run_for(2)
    worker._outcomes._channel.held_until_ms = scene.stage.now_ms + 3_000
    return scene.settled()


@schedule
def a_report_is_read_before_the_outcome() -> list[str]:
    scene = Scene()
    scene.running(last_ms=800)
    scene.late(scene.owning(), TopicKind.ATTEMPTS, 4_000)
    return scene.settled()


@schedule
def a_failure_of_an_older_attempt_comes_late() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    first = scene.worker_of(scene.running(last_ms=6_000, fail_as=FailureKind.BACKEND_ERROR))
    first.pause(8_000)
    scene.calls(last_ms=15_000)
    scene.late(first, TopicKind.WORK, 9_500)
    return scene.settled()


@schedule
def two_results_of_one_request() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    first = scene.worker_of(scene.running(last_ms=6_000))
    first.pause(8_000)
    scene.calls(last_ms=500)
    scene.late(first, TopicKind.WORK, 10_000)
    scene.run_for(13_000)
    return scene.settled()


@schedule
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


@schedule
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


@schedule
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


@schedule
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
