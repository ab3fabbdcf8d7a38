"""The native stream of events: a whole life, resumed wherever a reader was."""

import asyncio
import contextlib
from datetime import timedelta
from pathlib import Path

import aiohttp

from headrace.contracts.control import CancelRequest
from headrace.contracts.ids import AttemptId
from tests.integration.ingest.native_caller import events_in, get, submit
from tests.support.eventually import eventually_async
from tests.support.ingest import BreakableBus, Replica, chat_answer, running


async def test_events_tell_a_whole_life_and_resume_where_a_reader_was(replica: Replica) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}/events"
    await replica.other.chunk(record, 0, "Good ", so_far=5)
    async with replica.session.get(path, headers=replica.as_tenant()) as answer:
        await replica.other.chunk(record, 1, "day", so_far=8)
        await replica.other.chunk(record, 2, ".", so_far=9, finish_reason="stop")
        await replica.other.finish(record, chat_answer("Good day."))
        events = events_in(await answer.read())
        assert answer.content_type == "text/event-stream"
    assert "".join(data["text"] for event, _, data in events if event == "text") == "Good day."
    assert [events[0][0], events[-1][0]] == ["status", "end"]
    assert events[-1][2]["status"] == "succeeded"
    first = next(at for event, at, _ in events if event == "text" and at)
    had = int(first.rsplit("-", 1)[1])
    resumed = events_in((await get(replica, path, **{"Last-Event-ID": first}))[2])
    assert "".join(data["text"] for event, _, data in resumed if event == "text") == "Good day."[had:]


async def test_a_live_stream_is_resumed_behind_its_last_event_without_a_repeated_word(
    replica: Replica,
) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}/events"
    await replica.other.chunk(record, 0, "Good ", so_far=5)
    async with replica.session.get(path, headers=replica.as_tenant()) as answer:
        seen = b""
        while b"event: text" not in seen or not seen.endswith(b"\n\n"):
            seen += await answer.content.readany()
    place = next(at for event, at, _ in events_in(seen) if event == "text")
    assert place is not None
    resuming = asyncio.create_task(get(replica, path, **{"Last-Event-ID": place}))
    await replica.other.chunk(record, 1, "day.", so_far=9, finish_reason="stop")
    await replica.other.finish(record, chat_answer("Good day."), tell=False)
    events = events_in((await asyncio.wait_for(resuming, 10))[2])
    assert [data["text"] for event, _, data in events if event == "text"] == ["day."]
    assert events[-1][0] == "end"


async def test_another_attempts_text_begins_with_a_restart(replica: Replica) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}/events"
    async with replica.session.get(path, headers=replica.as_tenant()) as answer:
        await replica.other.chunk(record, 0, "Bad", so_far=3)
        await replica.other.chunk(record, 0, "Good", so_far=4, attempt=AttemptId(2, 1), finish_reason="stop")
        await replica.other.finish(record, chat_answer("Good"), attempt=AttemptId(2, 1))
        told = [(event, data.get("text")) for event, _, data in events_in(await answer.read())]
    restart = told.index(("restart", None))
    assert [text for event, text in told[restart:] if event == "text"] == ["Good"]


async def test_a_replica_that_stops_sends_its_readers_away_at_once(tmp_path: Path) -> None:
    async with running(BreakableBus(), tmp_path, drain=timedelta(seconds=20)) as replica:
        _, record = await submit(replica)
        session = aiohttp.ClientSession(replica.url, headers=replica.as_tenant())
        events = await session.get(f"/v1/requests/{record.id}/events")
        waiting = asyncio.create_task(session.get(f"/v1/requests/{record.id}?wait=30s"))
        await replica.other.request()
    async with session, asyncio.timeout(5):
        assert events_in(await events.read())[0][0] == "status"
        with contextlib.suppress(aiohttp.ClientConnectionError):
            (await waiting).release()


async def test_hanging_up_on_events_cancels_nothing(replica: Replica) -> None:
    _, record = await submit(replica)
    async with replica.session.get(f"/v1/requests/{record.id}/events", headers=replica.as_tenant()) as answer:
        await answer.content.readany()

    async def closed() -> bool:
        open_now = replica.telemetry.metrics.registry.get_sample_value("headrace_ingest_open_requests")
        return open_now == 0

    await eventually_async(closed, "the stream closed")
    assert not any(isinstance(each, CancelRequest) for each in await replica.other.control())
