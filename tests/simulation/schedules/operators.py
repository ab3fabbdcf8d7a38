"""Operators: what they order of many requests at once, while owners come and go. Offered by schedules.every."""

from headrace.bus.messages import message_of
from headrace.contracts.control import CancelMatching, Reprioritise
from headrace.contracts.selections import Selection, Stage
from headrace.contracts.topics import TopicKind
from tests.simulation.schedules.schedule import schedule, wrong_if
from tests.simulation.world.callers import Asked
from tests.simulation.world.operators import ends_of_requests
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene
from tests.support.scheduler.pure import place


def order(scene: Scene, meant: list[Asked]) -> None:
    """An operator cancels what waits now: it is asked for, so the checker finds nothing wrong with its end."""
    scene.run_for(5)
    before_ms = scene.gateways[0].clock.now().wall_ms + 3_600_000  # as on a machine whose clock is ahead
    selection = Selection(stage=Stage.QUEUED, stands_before=ends_of_requests(scene.stage))
    record = CancelMatching(selection=selection, before_ms=before_ms)
    scene.stage.broker.append(message_of(place(TopicKind.CONTROL), record), "an operator")
    for asked in meant:
        asked.cancel_tried = True


def status_of(scene: Scene, asked: Asked) -> object:
    """What is stored of a request."""
    return scene.database.results_of([asked.record.id])[asked.record.id]["status"]


@schedule
def an_operators_cancel_outlives_its_owner() -> list[str]:
    """The owner ends what waits, but none of it gets into the log, and checkpoints go on; then it dies. Requests that came
    after the order wait when it is read, and when the next owner reads it again.
    """
    scene = Scene(Cast(limit=1))
    scene.running(last_ms=16_000)
    scene.calls(last_ms=300)
    meant = [scene.submit() for _ in range(4)]
    for partition in range(2):
        scene.out(TopicKind.RESULTS, 3_000, partition)
    order(scene, meant)
    newer = [scene.submit()]
    scene.run_for(2_400)
    owner = scene.owning()
    owner.kill()
    newer.append(scene.submit())
    scene.until(lambda: scene.stage.seen["takeover"] > 1, "a takeover")
    owner.start()
    bad = scene.settled()
    missed = [asked for asked in meant if status_of(scene, asked) != "cancelled"]
    told = wrong_if(bool(missed), f"F: {len(missed)} that were to be cancelled weren't")
    ended = {status_of(scene, asked) for asked in newer}
    return told + wrong_if(ended != {"succeeded"}, "F: a newer request was cancelled") + bad


def first_of_its_own(scene: Scene, favoured: Asked, others: list[Asked]) -> bool:
    """Whether it ran before all others of its tenant, tier and key: no priority moves it before anybody else's."""
    mine = favoured.record
    own = [
        asked for asked in others
        if (asked.record.tenant, asked.record.tier, asked.record.fairness_key)
        == (mine.tenant, mine.tier, mine.fairness_key)
    ]  # fmt: skip
    began = [min(run.began_ms for run in scene.runs_of(asked)) for asked in (favoured, *own)]
    return bool(own) and began[0] == min(began)


@schedule
def an_operators_new_priority_outlives_its_owner() -> list[str]:
    """What came last is to run first. A checkpoint passes the order; then its owner dies, and the next reads all again."""
    scene = Scene(Cast(limit=1))
    scene.running(last_ms=12_000)
    scene.calls(last_ms=300)
    waiting = [scene.submit() for _ in range(8)]
    scene.run_for(5)
    selection = Selection(id_prefix=waiting[-1].record.id, stands_before=ends_of_requests(scene.stage))
    record = Reprioritise(selection=selection, priority=5)
    scene.stage.broker.append(message_of(place(TopicKind.CONTROL), record), "an operator")
    scene.run_for(2_400)
    owner = scene.owning()
    owner.kill()
    scene.until(lambda: scene.stage.seen["takeover"] > 1, "a takeover")
    owner.start()
    bad = scene.settled()
    first = first_of_its_own(scene, waiting[-1], waiting[:-1])
    return wrong_if(not first, "F: what an operator wanted first wasn't") + bad
