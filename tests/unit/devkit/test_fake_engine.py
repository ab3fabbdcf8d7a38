"""The fake engine answers in vLLM's shapes, the same each time, and fails as it is asked to."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import orjson
import pytest
from openai import AsyncOpenAI

from headrace.devkit.engine import Exchange, FakeEngine, Journal
from headrace.devkit.engine.faults import Fault, fault_of
from headrace.devkit.engine.words import chat_tokens, completion_tokens, tokens_of
from tests.support.eventually import eventually_async

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@pytest.fixture
def engine(fake_engine: FakeEngine) -> FakeEngine:
    return fake_engine


@pytest.fixture
async def http(engine: FakeEngine) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(engine.url) as session:
        yield session


def chat(text: str = "hello", **more: object) -> bytes:
    return orjson.dumps({"model": "fake", "messages": [{"role": "user", "content": text}], **more})


async def post(
    http: aiohttp.ClientSession, body: bytes, path: str = CHAT, **headers: str
) -> tuple[int, bytes]:
    async with http.post(
        path, data=body, headers={name.replace("_", "-"): v for name, v in headers.items()}
    ) as response:
        return response.status, await response.read()


def events(body: bytes) -> list[Any]:
    lines = [line.removeprefix(b"data: ") for line in body.split(b"\n\n") if line]
    return [orjson.loads(line) if line.startswith(b"{") else line.decode() for line in lines]


def test_an_answer_goes_on_identically_wherever_it_was_cut() -> None:
    text = "".join(islice(chat_tokens("a prompt"), 60))
    for cut in range(len(text)):
        rest = "".join(islice(chat_tokens("a prompt", text[:cut]), 60))
        assert (text[:cut] + rest).startswith(text)


def test_a_completion_goes_on_identically_after_whole_tokens() -> None:
    tokens = list(islice(completion_tokens("Say:"), 40))
    for count in range(40):
        rest = list(islice(completion_tokens("Say:" + "".join(tokens[:count])), 40 - count))
        assert tokens[:count] + rest == tokens
    assert tokens == list(islice(tokens_of("Say:"), 40))


async def test_the_official_client_reads_plain_and_streamed_answers(engine: FakeEngine) -> None:
    async with AsyncOpenAI(base_url=f"{engine.url}/v1", api_key="none") as client:
        messages: Any = [{"role": "user", "content": "hello"}]
        plain = await client.chat.completions.create(model="fake", messages=messages, max_tokens=5)
        assert plain.choices[0].finish_reason == "length"
        assert plain.usage
        assert plain.usage.completion_tokens == 5
        stream: Any = await client.chat.completions.create(
            model="fake", messages=messages, max_tokens=5, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert (
        "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        == plain.choices[0].message.content
    )
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage == plain.usage


async def test_completions_stream_ends_with_done(http: aiohttp.ClientSession) -> None:
    body = orjson.dumps({"model": "fake", "prompt": "Say:", "stream": True})
    status, answer = await post(http, body, COMPLETIONS)
    said = events(answer)
    assert status == 200
    assert said[-1] == "[DONE]"
    assert said[-2]["choices"][0]["finish_reason"] == "stop"
    assert "".join(one["choices"][0]["text"] for one in said[:-1]) == "".join(islice(tokens_of("Say:"), 16))


async def test_the_journal_has_the_very_bytes(engine: FakeEngine, http: aiohttp.ClientSession) -> None:
    bodies = [chat("plain", odd=1), chat("streamed", stream=True), b"no json"]
    answers = [await post(http, body, X_Request_Id=f"r{n}") for n, body in enumerate(bodies)]
    async with http.get("/sim/journal") as response:
        told = msgspec.json.decode(await response.read(), type=list[Exchange])
    assert told == list(engine.journal.exchanges)
    assert [(one.request, one.status, one.response) for one in told] == [
        (body, status, answer) for body, (status, answer) in zip(bodies, answers, strict=True)
    ]
    assert told[1].header("x-request-id") == "r1"
    assert b'"id":"chatcmpl-r1"' in told[1].response


async def test_the_journal_file_holds_one_line_for_each(tmp_path: Path) -> None:
    journal = Journal(file=tmp_path / "journal")
    async with FakeEngine(journal=journal) as engine, aiohttp.ClientSession(engine.url) as http:
        await post(http, chat("one"))
        await post(http, chat("two [[fault:500]]"))
    journal.close()
    lines = (tmp_path / "journal").read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Exchange) for line in lines] == list(journal.exchanges)


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b"{", 400, "BadRequestError"),
        (b"[]", 400, "BadRequestError"),
        (orjson.dumps({"model": "fake", "messages": []}), 400, "BadRequestError"),
        (orjson.dumps({"model": "other", "messages": [{}]}), 404, "NotFoundError"),
        (chat(max_tokens=0), 400, "BadRequestError"),
        (chat("long " * 30_000), 400, "BadRequestError"),
        (chat("[[fault:429:7]]"), 429, "Too Many Requests"),
        (chat("[[fault:503]]"), 503, "Service Unavailable"),
        (chat("[[fault:500]]"), 500, "InternalServerError"),
        (chat("[[fault:400]]"), 400, "BadRequestError"),
        (chat("[[fault:nonsense]]"), 400, "BadRequestError"),
    ],
)
async def test_refusals_have_vllms_shape(
    http: aiohttp.ClientSession, body: bytes, status: int, kind: str
) -> None:
    async with http.post(CHAT, data=body) as response:
        error = orjson.loads(await response.read())["error"]
        assert (response.status, error["code"], error["type"]) == (status, status, kind)
        assert response.headers.get("Retry-After") == ("7" if status == 429 else None)


def test_faults_are_spelled_with_number_and_times() -> None:
    assert fault_of("hang") == Fault("hang", 0)
    assert fault_of("hang:5") == Fault("hang", 5)
    assert fault_of("429:2*3") == Fault("429", 2, 3)
    with pytest.raises(ValueError, match="there are 429, 503"):
        fault_of("429x")


async def test_a_fault_with_times_ends_after_them(http: aiohttp.ClientSession) -> None:
    statuses = [(await post(http, chat("again [[fault:503*2]]")))[0] for _ in range(3)]
    assert statuses == [503, 503, 200]
    assert (await post(http, chat("by header"), X_Fault="503"))[0] == 503


async def test_a_cut_stream_has_no_done(http: aiohttp.ClientSession) -> None:
    said = events((await post(http, chat("x [[fault:cut:2]]", stream=True)))[1])
    assert len(said) == 3
    assert said[-1]["choices"][0]["finish_reason"] is None


async def test_an_error_event_is_followed_by_done(http: aiohttp.ClientSession) -> None:
    said = events((await post(http, chat("x [[fault:error-event:0]]", stream=True)))[1])
    assert said[1]["error"]["code"] == 500
    assert said[2:] == ["[DONE]"]


async def test_malformed_lines_and_bodies_are_no_json(http: aiohttp.ClientSession) -> None:
    for stream in (False, True):
        status, body = await post(http, chat("x [[fault:malformed]]", stream=stream))
        assert status == 200
        with pytest.raises(orjson.JSONDecodeError):
            events(body) if stream else orjson.loads(body)


@pytest.mark.parametrize(
    ("fault", "stream"), [("reset", False), ("reset", True), ("reset:2", True), ("cut", False)]
)
async def test_lost_connections_are_errors_to_the_caller(
    engine: FakeEngine, http: aiohttp.ClientSession, fault: str, stream: bool
) -> None:
    with pytest.raises(aiohttp.ClientError):
        await post(http, chat(f"x [[fault:{fault}]]", stream=stream))
    await eventually_async(lambda: ended(engine, failed=1), "the fault is counted")


async def ended(engine: FakeEngine, **counts: int) -> bool:
    return all(getattr(engine.stats, name) == count for name, count in {"running": 0, **counts}.items())


@pytest.mark.parametrize(
    "body", [chat("[[fault:hang]]"), chat("[[fault:hang:2]]", stream=True), chat("[[fault:slow:9000]]")]
)
async def test_a_caller_who_leaves_aborts_the_work(engine: FakeEngine, body: bytes) -> None:
    async with aiohttp.ClientSession(engine.url) as http:
        call = asyncio.ensure_future(post(http, body))
        await eventually_async(lambda: running(engine, 1), "it runs")
        call.cancel()
    await eventually_async(lambda: ended(engine, aborted=1), "it is aborted")
    assert engine.journal.exchanges[0].ended == "aborted"


async def running(engine: FakeEngine, count: int) -> bool:
    return engine.stats.running == count


async def test_the_rest_waits_when_all_slots_are_taken_and_metrics_say_so() -> None:
    async with FakeEngine(slots=1, token_delay=timedelta(milliseconds=5)) as engine:
        async with aiohttp.ClientSession(engine.url) as http:
            calls = [asyncio.ensure_future(post(http, chat(f"{n}"))) for n in range(3)]
            await eventually_async(lambda: running(engine, 1), "one runs")
            async with http.get("/metrics") as response:
                page = await response.text()
            await asyncio.gather(*calls)
        assert 'vllm:num_requests_running{engine="0",model_name="fake"} 1' in page
        assert 'vllm:num_requests_waiting{engine="0",model_name="fake"} ' in page
        assert 'vllm:kv_cache_usage_perc{engine="0",model_name="fake"} 1.52587890625e-05' in page
        assert (engine.stats.most_running, engine.stats.completed, engine.stats.waiting) == (1, 3, 0)


async def test_death_resets_everyone_and_a_restart_serves_on_the_same_port(engine: FakeEngine) -> None:
    async with aiohttp.ClientSession(engine.url) as http:
        bystander = asyncio.ensure_future(post(http, chat("[[fault:hang]]")))
        await eventually_async(lambda: running(engine, 1), "the bystander runs")
        with pytest.raises(aiohttp.ClientError):
            await post(http, chat("[[fault:die*1]]"))
        with pytest.raises(aiohttp.ClientError):
            await bystander
        await engine.start()
        assert (await post(http, chat("[[fault:die*1]]")))[0] == 200


async def test_pages_of_health_and_models(http: aiohttp.ClientSession) -> None:
    async with http.get("/health") as health, http.get("/v1/models") as models, http.get("/no") as nothing:
        assert (health.status, nothing.status) == (200, 404)
        assert orjson.loads(await models.read())["data"][0]["id"] == "fake"
