"""Readers of streams: what they are shown of attempts that follow each other. Offered by schedules.every."""

from headrace.contracts.failures import FailureKind
from headrace.contracts.topics import TopicKind
from tests.simulation.schedules.schedule import schedule, wrong_if
from tests.simulation.world.run import Cast
from tests.simulation.world.scene import Scene


@schedule
def a_failed_attempt_was_streamed() -> list[str]:
    scene = Scene()
    scene.begin()
    scene.calls(last_ms=2_000, fail_as=FailureKind.BACKEND_ERROR)
    asked = scene.submit(stream=True)
    scene.callers.follow_now(asked)
    scene.until_runs(asked)
    scene.calls(last_ms=2_000)
    return scene.settled()


@schedule
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


@schedule
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


@schedule
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


@schedule
def a_worker_that_stood_still_streams_on() -> list[str]:
    scene = Scene(Cast(workers=2, limit=1))
    scene.begin()
    scene.calls(last_ms=24_000)
    asked = scene.submit(stream=True)
    scene.callers.follow_now(asked)
    scene.until_runs(asked)
    first = scene.worker_of(asked)
    scene.run_for(7_000)
    first.pause(13_000)
    scene.until_runs(asked, 2)
    scene.run_for(7_000)
    scene.late(first, TopicKind.WORK, 4_000)
    return scene.settled()
