"""Callers that send too much, read too little, leave early, or are still there when the replica stops."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from pydantic import SecretStr

from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Chunk, Final
from headrace.contracts.values import Failure, Payload
from headrace.ingest import http_server
from headrace.ingest.adapters.replies_reader import Listeners
from headrace.ingest.ports import Heard
from headrace.ingest.settings import IngestSettings
from headrace.ingest.wiring import serve
from headrace.runtime.telemetry import Telemetry
from tests.support.eventually import eventually_async
from tests.support.ingest import CHAT, POLICY, BreakableBus, Replica, apply_all_topics, chat_answer, running

CHAT_PATH = "/v1/chat/completions"


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    async with running(BreakableBus(), tmp_path) as replica:
        yield replica


async def said_to(replica: Replica, *parts: bytes) -> bytes:
    """What the server says to these bytes until it closes."""
    port = int(replica.url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionError:
        return b"reset"
    finally:
        writer.close()


async def test_a_head_without_end_is_refused(replica: Replica) -> None:
    answer = await said_to(replica, b"GET / HTTP/1.1\r\nX-Long: ", *[b"a" * 16384] * 8)
    assert answer == b"reset" or answer.startswith(b"HTTP/1.1 431 ")


async def test_a_connection_that_says_nothing_or_speaks_slowly_is_closed(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_LONGEST_HEAD_SECONDS", 0)
    assert await said_to(replica) == b""
    assert await said_to(replica, b"GET / HTTP/1.1\r\nX-Slow: ") == b""


async def test_a_caller_that_leaves_a_native_wait_is_waited_for_no_more(replica: Replica) -> None:
    async with replica.session.post("/v1/requests", json=CHAT, headers=replica.as_tenant()) as answer:
        path = answer.headers["Location"]
    async with aiohttp.ClientSession(replica.url, headers=replica.as_tenant()) as session:
        with pytest.raises(TimeoutError):
            await session.get(f"{path}?wait=30s", timeout=aiohttp.ClientTimeout(total=0.5))

    async def nobody() -> bool:
        found = replica.telemetry.metrics.registry.get_sample_value("headrace_ingest_open_requests")
        return found == 0

    await eventually_async(nobody, "the wait ended")


async def test_a_wait_of_nothing_answers_at_once(replica: Replica) -> None:
    async with replica.session.post("/v1/requests", json=CHAT, headers=replica.as_tenant()) as answer:
        path = answer.headers["Location"]
    async with (
        asyncio.timeout(5),
        replica.session.get(f"{path}?wait=0", headers=replica.as_tenant()) as answer,
    ):
        assert (answer.status, (await answer.json())["status"]) == (200, "queued")


def chunk(number: int, size: int) -> Heard:
    payload = Payload(size=size)
    return Heard(
        Chunk(id="r", attempt=AttemptId(1, 1), number=number, characters=0, payload=payload), b"x" * size
    )


async def test_what_a_slow_caller_leaves_lying_is_bounded_and_its_end_is_never_dropped() -> None:
    listeners = Listeners()
    with listeners.listen("r") as slow:
        for number in range(1000):
            listeners.tell(chunk(number, 10_000))
        final = Final(
            id="r", attempt=AttemptId(1, 1), status=Status.SUCCEEDED, http_status=200, payload=Payload(size=0)
        )
        listeners.tell(Heard(final))
        seen = list[Heard]()
        while not seen or seen[-1].record != final:
            seen.append(await slow.next())
        assert len(seen) < 60
        listeners.tell(chunk(1000, 10))
        assert (await slow.next()).record == chunk(1000, 10).record


async def test_who_still_waits_when_a_replica_stops_is_told_and_not_to_come_again(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"waiting": CHAT, "streaming": {**CHAT, "stream": True}}
    async with running(BreakableBus(), tmp_path, drain=timedelta(seconds=2)) as replica:
        session = aiohttp.ClientSession(replica.url, headers=replica.as_tenant())
        answers = {
            name: asyncio.create_task(session.post(CHAT_PATH, json=body)) for name, body in asked.items()
        }
        requests = [(await replica.other.request())[0] for _ in asked]
        streamed = next(each for each in requests if each.stream)
        await replica.other.chunk(streamed, 0, "Good ", so_far=5)
        begun = await answers["streaming"]
        assert (await begun.content.readline()).startswith(b"data: ")
    async with session, await answers["waiting"] as waiting:
        assert (waiting.status, waiting.headers["X-Should-Retry"]) == (503, "false")
        assert (await waiting.json())["error"]["code"] == "replica_stopping"
        last = (await begun.read()).strip().rsplit(b"\n", 1)[-1]
        error = msgspec.json.decode(last.removeprefix(b"data: "))["error"]
        assert (error["code"], error["request_id"]) == ("replica_stopping", streamed.id)


async def test_an_answer_that_must_stay_unfinished_is_no_error_of_the_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(BreakableBus(), tmp_path, heartbeat_after=timedelta(milliseconds=50)) as replica:
        answer = await replica.session.post(CHAT_PATH, json=CHAT, headers=replica.as_tenant())
        record, _ = await replica.other.request()
        failure = Failure(kind=FailureKind.QUEUE_TIMEOUT)
        await replica.other.finish(record, b"", status=Status.EXPIRED, http_status=504, failure=failure)
        with pytest.raises(aiohttp.ClientError):
            await answer.read()
        async with replica.session.get("/v1/models", headers=replica.as_tenant()) as answer:
            assert answer.status == 200
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


async def test_a_slow_caller_gets_the_whole_text_all_the_same(replica: Replica) -> None:
    """Far more than sockets hold is said before the caller reads a byte."""
    words = [f"{number:>9999} " for number in range(1500)]
    async with replica.session.post(
        CHAT_PATH, json={**CHAT, "stream": True}, headers=replica.as_tenant()
    ) as answer:
        record, _ = await replica.other.request()
        for number, word in enumerate(words):
            await replica.other.chunk(record, number, word, so_far=10_000 * (number + 1))
        await replica.other.finish(record, chat_answer("".join(words)), inline=False)
        body = await answer.read()
    assert body.endswith(b"data: [DONE]\n\n")
    events = [msgspec.json.decode(each[6:]) for each in body.split(b"\n\n") if each.startswith(b"data: {")]
    assert "".join(each["choices"][0]["delta"].get("content", "") for each in events) == "".join(words)


class SlowBus(BreakableBus):
    """Readers of event streams that take long to find their place, and count themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0

    def async_reader(self, name: str) -> Any:
        bus, reader = self, super().async_reader(name)
        if not name.endswith("-events"):
            return reader

        class Slow:
            async def start(self) -> None:
                bus.open += 1
                await reader.start()

            async def at_time(self, *_: object) -> int:
                await asyncio.Event().wait()
                return 0

            async def stop(self) -> None:
                await asyncio.sleep(0)
                bus.open -= 1
                await reader.stop()

        return Slow()


async def test_a_caller_that_leaves_before_its_event_stream_began_leaves_no_reader_behind(
    tmp_path: Path,
) -> None:
    bus = SlowBus()
    async with running(bus, tmp_path) as replica:
        async with replica.session.post("/v1/requests", json=CHAT, headers=replica.as_tenant()) as answer:
            path = answer.headers["Location"]
        async with replica.session.get(f"{path}/events", headers=replica.as_tenant()) as answer:
            await answer.content.readline()

            async def reading() -> bool:
                return bus.open == 1

            await eventually_async(reading, "the stream looks for its place")

        async def stopped() -> bool:
            return bus.open == 0

        await eventually_async(stopped, "the reader is stopped")


async def test_a_replica_is_not_ready_before_its_api_listens(tmp_path: Path) -> None:
    async def verdict_of(bus: BreakableBus) -> tuple[str, ...]:
        settings = IngestSettings(
            id_key=SecretStr("ab" * 32), port=0, database=f"sqlite:///{tmp_path}/results.db"
        )
        telemetry, stop = Telemetry.create(settings), asyncio.Event()
        serving = asyncio.create_task(serve(settings, bus=bus, policy=POLICY, telemetry=telemetry, stop=stop))
        await asyncio.sleep(0)  # one turn: nothing is checked or connected yet
        found = tuple(each.component for each in telemetry.health.verdict().not_ready)
        stop.set()
        await serving
        return found

    bus = BreakableBus()
    apply_all_topics(bus, "headrace.")
    assert "api" in await verdict_of(bus)
