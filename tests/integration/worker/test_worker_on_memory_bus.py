from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import orjson
import pytest

from headrace.bus.memory import MemoryBus
from headrace.bus.messages import Message
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.commands import CancelReason
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.reports import Gauges
from headrace.contracts.topics import TopicKind
from headrace.devkit.engine import INSTANT, FakeEngine
from tests.integration.worker.stage import Stage, chat, staged
from tests.support.eventually import eventually_async

S = timedelta(seconds=1)
SLOW = timedelta(milliseconds=50)


@pytest.fixture
async def stage(fake_engine: FakeEngine) -> AsyncIterator[Stage]:
    async with staged(MemoryBus(), fake_engine.url) as stage:
        yield stage


@pytest.fixture
async def slow_engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine(token_delay=SLOW) as engine:
        yield engine


async def test_a_plain_answer_and_its_request_pass_byte_for_byte(
    stage: Stage, fake_engine: FakeEngine
) -> None:
    body = b'{ "model":"fake",\t"messages":[{"role":"user","content":"a\\u00e9 \xf0\x9f\x99\x82"}], "x_unknown": 1.50 }'
    trace = ((b"traceparent".decode(), b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"),)
    attempt = await stage.run(body, trace=trace)
    result, answer = await stage.result(attempt)
    (exchange,) = fake_engine.journal.exchanges
    assert exchange.request == body
    assert answer == exchange.response
    assert (result.status, result.http_status) == (Status.SUCCEEDED, 200)
    assert result.usage.completion_tokens == orjson.loads(answer)["usage"]["completion_tokens"]
    assert exchange.header("X-Request-Id") == f"req_1-{attempt}"
    assert "a" * 32 in (exchange.header("traceparent") or "")
    record = await stage.ended(attempt)
    assert (record.verdict, record.charge, record.usage) == (Verdict.DONE, 9, result.usage)


async def test_a_stream_is_relayed_as_the_backend_sent_it_and_stored_assembled(
    stage: Stage, fake_engine: FakeEngine
) -> None:
    attempt = await stage.run(chat(stream=True), stream=True)
    result, answer = await stage.result(attempt)
    chunks = await stage.chunks(attempt)
    sent = fake_engine.journal.exchanges[-1].response
    events = [event for event in sent.split(b"\n\n") if event and b"[DONE]" not in event]
    assert orjson.loads(events[-1][6:])["choices"] == []  # our own include_usage: not for this caller
    assert b"".join(value for _, value in chunks) == b"".join(event + b"\n\n" for event in events[:-1])
    assert [chunk.number for chunk, _ in chunks] == list(range(len(chunks)))
    stored = orjson.loads(answer)
    text = stored["choices"][0]["message"]["content"]
    assert (stored["object"], chunks[-1][0].characters) == ("chat.completion", len(text))
    assert result.usage.completion_tokens == stored["usage"]["completion_tokens"] > 0
    assert not result.usage.estimated


async def test_a_caller_who_asked_for_usage_gets_its_chunk(stage: Stage) -> None:
    body = chat(stream=True, stream_options={"include_usage": True})
    attempt = await stage.run(body, stream=True, sends_usage=True)
    await stage.result(attempt)
    (*_, (_, last)) = await stage.chunks(attempt)
    assert b'"usage":{' in last


async def test_on_llama_cpp_a_plain_text_call_is_streamed_upstream_and_assembled(
    fake_engine: FakeEngine,
) -> None:
    async with staged(MemoryBus(), fake_engine.url, backend_kind="llama.cpp") as stage:
        attempt = await stage.run(chat())
        _, answer = await stage.result(attempt)
        assert await stage.chunks(attempt) == []
        asked = orjson.loads(fake_engine.journal.exchanges[-1].request)
        assert (asked["stream"], asked["stream_options"]) == (True, {"include_usage": True})
        tools = await stage.run(chat("with tools"), plain_text=False)
        _, plain = await stage.result(tools)
        assert plain == fake_engine.journal.exchanges[-1].response
    whole = orjson.loads(answer)
    assert whole["choices"][0]["message"]["content"]
    assert whole["choices"][0]["finish_reason"] == "stop"


FAULTS = [
    ("429:7", FailureKind.BACKEND_OVERLOADED, Verdict.RETRY_AT),
    ("503", FailureKind.BACKEND_OVERLOADED, Verdict.RETRY_AT),
    ("500", FailureKind.ENGINE_DIED, Verdict.RETRY_AT),
    ("400", FailureKind.INVALID_REQUEST, Verdict.DONE),
    ("reset", FailureKind.STREAM_BROKEN, Verdict.RETRY_AT),
    ("hang", FailureKind.BACKEND_TIMEOUT, Verdict.RETRY_AT),
    ("cut", FailureKind.STREAM_BROKEN, Verdict.RETRY_AT),
    ("error-event", FailureKind.ENGINE_DIED, Verdict.RETRY_AT),
    ("malformed", None, Verdict.RETRY_AT),
    ("hang:2", FailureKind.BACKEND_TIMEOUT, Verdict.RETRY_AT),
    ("reset:2", FailureKind.STREAM_BROKEN, Verdict.RETRY_AT),
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_every_fault_becomes_its_row_of_the_failure_table(
    fake_engine: FakeEngine, stream: bool
) -> None:
    more: dict[str, Any] = {"stream": True} if stream else {}
    async with staged(
        MemoryBus(), fake_engine.url, limit=20, call_timeout=3 * S, stall_timeout=1.5 * S
    ) as stage:
        attempts = [
            await stage.run(chat(f"[[fault:{name}]]", **more), stream=stream) for name, _, _ in FAULTS
        ]
        for attempt, (name, kind, verdict) in zip(attempts, FAULTS, strict=True):
            record = await stage.ended(attempt)
            assert record.failure is not None, name
            wanted = kind or (FailureKind.STREAM_BROKEN if stream else FailureKind.BACKEND_ERROR)
            assert (record.failure.kind, record.verdict) == (wanted, verdict), name
            assert len(await stage.results_of(attempt)) == (verdict is Verdict.DONE), name
        overloaded, refused = await stage.ended(attempts[0]), await stage.result(attempts[3])
        assert overloaded.failure is not None
        assert overloaded.failure.retry_after_ms == 7000
        (exchange,) = fake_engine.journal.with_text("fault:400")
        assert (refused[0].http_status, refused[1]) == (400, exchange.response)


async def test_an_engine_that_dies_makes_suspects_and_shows_unhealthy_until_it_is_back(
    fake_engine: FakeEngine,
) -> None:
    async with staged(MemoryBus(), fake_engine.url) as stage:
        record = await stage.ended(await stage.run(chat("[[fault:die:2]]", stream=True), stream=True))
        assert record.failure is not None
        assert record.failure.kind is FailureKind.ENGINE_DIED
        refused = await stage.ended(await stage.run(chat()))
        assert refused.failure is not None
        assert (refused.failure.kind, refused.started) == (FailureKind.BACKEND_UNAVAILABLE, False)
        assert not stage.well
        await fake_engine.start()

        async def healthy() -> bool:
            return (await stage.reports())[-1].healthy and stage.well

        await eventually_async(healthy, "a healthy report")
        assert (await stage.ended(await stage.run(chat()))).status is Status.SUCCEEDED


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_cancel_reaches_the_backend_and_keeps_the_partial_text(
    slow_engine: FakeEngine, stream: bool
) -> None:
    more: dict[str, Any] = {"stream": True} if stream else {}
    async with staged(MemoryBus(), slow_engine.url) as stage:
        attempt = await stage.run(chat(max_tokens=400, **more), stream=stream)
        await stage.running(attempt)
        if stream:

            async def relayed() -> bool:
                return len(await stage.chunks(attempt)) > 3

            await eventually_async(relayed, "some chunks")
        await stage.cancel(attempt)

        async def aborted() -> bool:
            return slow_engine.stats.aborted == 1

        await eventually_async(aborted, "the engine notices")
        result, body = await stage.result(attempt)
    assert (result.status, result.http_status, result.partial) == (Status.CANCELLED, 499, stream)
    if stream:
        assert orjson.loads(body)["choices"][0]["message"]["content"]
        assert result.usage.estimated
        assert result.usage.completion_tokens > 0


async def test_a_superseded_attempt_is_aborted_and_leaves_no_result(slow_engine: FakeEngine) -> None:
    async with staged(MemoryBus(), slow_engine.url) as stage:
        attempt = await stage.run(chat(max_tokens=400))
        await stage.running(attempt)
        await stage.cancel(attempt, CancelReason.SUPERSEDED)
        assert (await stage.ended(attempt)).verdict is Verdict.RETRY_AT
        assert await stage.results_of(attempt) == []


async def test_a_deadline_ends_a_stream_as_expired_with_its_partial_text(slow_engine: FakeEngine) -> None:
    async with staged(MemoryBus(), slow_engine.url) as stage:
        attempt = await stage.run(chat(max_tokens=400, stream=True), stream=True, finish_in=1 * S)
        result, body = await stage.result(attempt)
    assert (result.status, result.http_status, result.partial) == (Status.EXPIRED, 504, True)
    assert body


async def test_a_report_shows_running_attempts_with_their_tokens(slow_engine: FakeEngine) -> None:
    async with staged(MemoryBus(), slow_engine.url, limit=1) as stage:
        first = await stage.run(chat(max_tokens=400, stream=True), stream=True)
        second = await stage.run(chat("second"))

        async def counted() -> bool:
            held = {one.attempt: one for one in (await stage.reports())[-1].held}
            return set(held) == {first, second} and held[first].tokens > 2 and not held[second].running

        await eventually_async(counted, "tokens in a report")
        await stage.cancel(first)
        assert (await stage.ended(second)).status is Status.SUCCEEDED


async def test_a_stopping_worker_finishes_what_runs_hands_back_what_waits_and_says_goodbye(
    slow_engine: FakeEngine,
) -> None:
    async with staged(MemoryBus(), slow_engine.url, limit=1) as stage:
        running, waiting = await stage.run(chat(max_tokens=20)), await stage.run(chat("waits"))
        await stage.running(running)
        await stage.drained()
        done, back = await stage.ended(running), await stage.ended(waiting)
        assert done.status is Status.SUCCEEDED
        assert (back.verdict, back.started) == (Verdict.RETRY_AT, False)
        assert await stage.gone()


async def test_an_undecodable_command_goes_to_the_dead_letters_with_its_bytes_and_the_lane_goes_on(
    stage: Stage,
) -> None:
    lane = (await stage.reports())[-1].lane
    producer = stage.bus.async_producer("test", delivery_timeout=5 * S)
    await producer.start()
    place = stage.place(TopicKind.WORK, lane)
    await producer.send(Message(place.topic, place.partition, b"\x00raw", ((HEADER, b"{nonsense"),)))
    assert (await stage.ended(await stage.run(chat()))).status is Status.SUCCEEDED
    letters = [letter for partition in range(4) for letter in await stage.read(TopicKind.DLQ, partition)]
    (letter,) = letters
    assert letter.value == b"\x00raw"
    assert dict(letter.headers)["headrace-original"] == b"{nonsense"
    assert decode(TopicKind.DLQ, letter.header).reason is FailureKind.UNDECODABLE


async def test_a_kept_alive_connection_that_was_closed_costs_no_attempt(fake_engine: FakeEngine) -> None:
    async with staged(MemoryBus(), fake_engine.url) as stage:
        assert (await stage.ended(await stage.run(chat("warms the connection")))).status is Status.SUCCEEDED
        await fake_engine.stop()
        await fake_engine.start()
        assert (await stage.ended(await stage.run(chat("again")))).status is Status.SUCCEEDED


async def test_a_prompt_that_ends_its_engine_on_a_kept_alive_connection_is_suspect(
    fake_engine: FakeEngine,
) -> None:
    async with staged(MemoryBus(), fake_engine.url) as stage:
        assert (await stage.ended(await stage.run(chat("warms the connection")))).status is Status.SUCCEEDED
        record = await stage.ended(await stage.run(chat("[[fault:die]]")))
        assert record.failure is not None
        assert (record.failure.kind, record.started) == (FailureKind.ENGINE_DIED, True)


async def test_a_second_worker_of_one_name_takes_no_part_until_the_first_has_left(
    stage: Stage, fake_engine: FakeEngine
) -> None:
    first, before = (await stage.reports())[-1].boot, len(await stage.reports())
    async with staged(stage.bus, fake_engine.url, name=stage.worker):

        async def long_enough() -> bool:
            return len(await stage.reports()) >= before + 20

        await eventually_async(long_enough, "twenty reports")
        assert {report.boot for report in await stage.reports()} == {first}
        stage.stop.set()

        async def serves() -> bool:
            return any(report.boot > first for report in await stage.reports())

        await eventually_async(serves, "the second one serves")


async def test_reports_tell_what_the_engine_tells_of_its_load(fake_engine: FakeEngine) -> None:
    async with staged(MemoryBus(), fake_engine.url) as stage:

        async def told() -> Gauges | None:
            return (await stage.reports())[-1].gauges

        gauges = await eventually_async(told, "a report with the engine's gauges")
    assert gauges is not None
    assert (gauges.running, gauges.waiting, gauges.preemptions) == (0, 0, 0)
    assert gauges.kv_tokens == INSTANT.kv_blocks * 16
