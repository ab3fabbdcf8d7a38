"""Answers that give way to urgent requests and go on later: from whose text, under which owner, before whose eyes.

Offered by schedules.every.
"""

from headrace.contracts.topics import TopicKind
from tests.simulation.schedules.schedule import schedule, wrong_if
from tests.simulation.world.callers import Asked
from tests.simulation.world.readers import NativeReader
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene


def stopped(scene: Scene, *, stream: bool = True) -> tuple[Asked, NativeReader]:
    """Begins; a long answer has given way to an urgent one, which runs for some seconds."""
    scene.begin()
    scene.calls(last_ms=12_000)
    long = scene.submit(stream=stream)
    reader = scene.callers.follow_now(long)
    scene.until_runs(long)
    scene.run_for(6_000)
    scene.calls(last_ms=4_000)
    urgent = scene.callers.submit_now(tier="interactive")
    scene.until_runs(urgent)
    return long, reader


def texts_handed_on(scene: Scene) -> int:
    """How many attempts were to go on from a text."""
    return scene.stage.seen["text gone on from"]


@schedule
def a_stopped_answer_goes_on_before_its_readers_eyes() -> list[str]:
    scene = Scene(Cast(limit=1))
    long, reader = stopped(scene)
    had = reader.had.text
    scene.until_runs(long, 2)
    scene.run_for(3_000)
    last = scene.runs_of(long)[-1]
    goes_on = had and reader.had.text.startswith(had) and len(reader.had.text) > len(had)
    bad = wrong_if(last.ended_ms is not None, "the second attempt was to be seen while it runs")
    bad += wrong_if(not goes_on, f"read: {reader.had.text!r} was shown behind {had!r}")
    bad += scene.settled()
    return bad + wrong_if(reader.had.restarts > 0, "read: a text that goes on was taken back")


@schedule
def the_last_words_before_a_stop_are_lost() -> list[str]:
    """So its reader wasn't shown all that the next attempt goes on from: it is told the rest at the end."""
    scene = Scene(Cast(limit=1))
    scene.begin()
    scene.calls(last_ms=12_000)
    long = scene.submit(stream=True)
    reader = scene.callers.follow_now(long)
    scene.until(lambda: bool(reader.had.text), "a text")
    scene.lose_next(TopicKind.REPLIES)
    scene.run_for(4_000)
    scene.calls(last_ms=2_000)
    scene.callers.submit_now(tier="interactive")
    scene.until_runs(long, 2)
    return scene.settled() + wrong_if(not texts_handed_on(scene), "texts: none was handed on")


@schedule
def a_stopped_answer_goes_on_under_the_next_owner() -> list[str]:
    scene = Scene(Cast(limit=1))
    long, _ = stopped(scene)
    scene.run_for(1_500)
    scene.owning().kill()
    scene.until_runs(long, 2)
    bad = wrong_if(not scene.stage.seen["text read again"], "texts: the next owner asked for none")
    bad += wrong_if(texts_handed_on(scene) != 1, "texts: the next owner handed none on")
    return bad + scene.settled()


@schedule
def a_stopped_answers_worker_dies_when_it_goes_on() -> list[str]:
    """It may be its text that killed it: it begins anew, and readers are told."""
    scene = Scene(Cast(limit=1))
    long, _ = stopped(scene)
    scene.calls(last_ms=8_000)
    scene.until_runs(long, 2)
    scene.run_for(2_000)
    worker = scene.workers[0]
    worker.kill()
    worker.start()
    scene.until_runs(long, 3)
    return wrong_if(texts_handed_on(scene) != 1, "texts: it went on again") + scene.settled()


@schedule
def two_stopped_answers_go_on() -> list[str]:
    scene = Scene(Cast(limit=4))
    scene.begin()
    scene.calls(last_ms=12_000)
    long = [scene.submit(stream=True) for _ in range(4)]
    for asked in long:
        scene.until_runs(asked)
    scene.run_for(5_000)
    scene.calls(last_ms=1_000)
    for _ in range(4):
        scene.callers.submit_now(tier="interactive")
    return scene.settled() + wrong_if(texts_handed_on(scene) < 2, "texts: no two were handed on")
