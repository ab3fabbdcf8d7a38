"""Every way the engine fails, over HTTP: on request, by plan, dead and back, slow."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import aiohttp
import pytest

from headrace.devkit.engine import TINY, FakeEngine
from headrace.devkit.engine.faults import DEFAULTS
from tests.support.engine_http import CHAT, COMPLETIONS, EMBEDDINGS, chat, get, post
from tests.support.eventually import eventually_async

USAGE = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
async def http(fake_engine: FakeEngine) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(fake_engine.url) as session:
        yield session


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("fault", "status", "kind", "retry_after"),
    [
        ("429", 429, "Too Many Requests", "1"),
        ("429:9", 429, "Too Many Requests", "9"),
        ("503", 503, "Service Unavailable", None),
        ("503:2", 503, "Service Unavailable", "2"),
        ("500", 500, "InternalServerError", None),
        ("400", 400, "BadRequestError", None),
        ("404", 404, "NotFoundError", None),
        ("context", 400, "BadRequestError", None),
    ],
)
async def test_refusals(
    http: aiohttp.ClientSession, stream: bool, fault: str, status: int, kind: str, retry_after: str | None
) -> None:
    for path, body in (
        (CHAT, chat(stream=stream)),
        (COMPLETIONS, {"model": "fake", "prompt": "p", "stream": stream}),
        (EMBEDDINGS, {"model": "fake", "input": "p"}),
    ):
        got = await post(http, body, path, X_Fault=fault)
        assert (got.status, got.json["error"]["code"], got.json["error"]["type"]) == (status, status, kind)
        assert got.headers.get("Retry-After") == retry_after
    if fault == "context":
        assert "maximum context length is 32768 tokens" in got.json["error"]["message"]


async def test_a_proxys_page_is_html(http: aiohttp.ClientSession) -> None:
    got = await post(http, chat("[[fault:html]]"))
    assert (got.status, got.headers["Content-Type"].partition(";")[0]) == (502, "text/html")
    assert got.body.startswith(b"<html>")


async def whole(http: aiohttp.ClientSession, fault: str, **more: Any) -> tuple[Any, Any]:
    """An answer with the fault, and the same one without."""
    body = chat("the same prompt", max_tokens=40, **{**USAGE, **more})
    return await post(http, body, X_Fault=fault), await post(http, body)


@pytest.mark.parametrize(
    ("fault", "lost"), [("no-done", ["done"]), ("no-usage", ["usage"]), ("double-finish", [])]
)
async def test_streams_that_end_oddly_have_the_whole_text(
    http: aiohttp.ClientSession, fault: str, lost: list[str]
) -> None:
    odd, well = await whole(http, fault)
    assert odd.text == well.text
    assert ("[DONE]" in odd.events) is ("done" not in lost)
    assert any(isinstance(event, dict) and "usage" in event for event in odd.events) is ("usage" not in lost)
    finishes = [event for event in odd.events if isinstance(event, dict) and event["choices"]]
    reasons = [event["choices"][0]["finish_reason"] for event in finishes]
    assert reasons.count("length") == (2 if fault == "double-finish" else 1)


async def test_comments_stand_before_every_event_and_mean_nothing(http: aiohttp.ClientSession) -> None:
    odd, well = await whole(http, "comments")
    assert odd.body.count(b": keep-alive\n\n") == len(odd.events)
    assert odd.text == well.text


async def test_split_characters_arrive_in_two_packets_and_are_whole_together(fake_engine: FakeEngine) -> None:
    body = chat("the same prompt", max_tokens=40, stream=True)
    pieces: list[bytes] = []
    async with (
        aiohttp.ClientSession(fake_engine.url) as http,
        http.post(CHAT, json=body, headers={"X-Fault": "split-utf8"}) as response,
    ):
        pieces = [piece async for piece in response.content.iter_any()]
    assert any(_broken(piece) for piece in pieces), "no packet ends inside a character"
    assert b"".join(pieces).decode().endswith("data: [DONE]\n\n")
    assert b"".join(pieces) == fake_engine.journal.exchanges[-1].response


def _broken(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return True
    return False


async def test_a_split_plain_answer_is_whole(http: aiohttp.ClientSession) -> None:
    odd, well = await whole(http, "split-utf8", stream=False, stream_options=None)
    assert odd.text == well.text
    without, _ = await whole(http, "no-usage", stream=False, stream_options=None)
    assert without.json["usage"] is None


async def test_every_fault_is_made_and_leaves_the_engine_as_it_was(fake_engine: FakeEngine) -> None:
    kinds = [kind for kind in DEFAULTS if kind not in {"dead", "die"}]
    for kind in kinds:
        for stream in (False, True):
            async with aiohttp.ClientSession(fake_engine.url) as http:
                call = asyncio.ensure_future(post(http, chat(f"[[fault:{kind}]]", stream=stream)))
                await asyncio.wait([call], timeout=0.2 if kind in {"hang", "slow"} else 20)
                call.cancel()
                await asyncio.wait([call])

    async def empty() -> bool:
        return (fake_engine.stats.running, fake_engine.stats.kv_blocks_used) == (0, 0)

    await eventually_async(empty, "nothing is left in the batch")
    assert fake_engine.stats.received == fake_engine.stats.inside + 2 * len(kinds)
    assert fake_engine.stats.inside == 0
    async with aiohttp.ClientSession(fake_engine.url) as http:
        assert (await post(http, chat("well"))).status == 200


async def test_a_dead_engine_fails_all_and_is_back_after_its_time() -> None:
    async with (
        FakeEngine(TINY.paced(timedelta(milliseconds=20))) as engine,
        aiohttp.ClientSession(engine.url) as http,
    ):
        calls = [
            asyncio.ensure_future(post(http, chat(f"bystander {n}", max_tokens=900, stream=n > 0)))
            for n in range(2)
        ]
        await eventually_async(lambda: _running(engine, 2), "both run")
        assert (await post(http, chat("[[fault:dead:4*1]]"))).status == 500
        plain, streamed = await asyncio.gather(*calls)
        assert (plain.status, streamed.status) == (500, 200)
        assert (streamed.events[-2]["error"]["code"], streamed.events[-1]) == (500, "[DONE]")
        assert (await get(http, "/health")).status == (await get(http, "/ping")).status == 503
        refused = await post(http, chat("comes later"))
        assert (refused.status, refused.json["error"]["type"]) == (500, "InternalServerError")

        async def healthy() -> bool:
            return (await get(http, "/health")).status == 200

        await eventually_async(healthy, "the engine is back")
        assert (await post(http, chat("[[fault:dead:4*1]]", max_tokens=2))).status == 200
        assert (engine.stats.deaths, engine.stats.running, engine.stats.kv_blocks_used) == (1, 0, 0)


async def _running(engine: FakeEngine, count: int) -> bool:
    return engine.stats.running == count


async def test_a_plan_strikes_by_number_and_by_hash(http: aiohttp.ClientSession) -> None:
    plan = {"rules": [{"fault": "503", "every": 3, "after": 3}, {"fault": "429", "numbers": [2]}]}
    assert (await post(http, plan, "/sim/faults")).status == 200
    assert [(await post(http, chat(f"{n}"))).status for n in range(1, 10)] == [
        200, 429, 200, 200, 200, 503, 200, 200, 503,
    ]  # fmt: skip
    await post(http, {"rules": [{"fault": "500", "share": 0.5, "seed": 1}]}, "/sim/faults")
    drawn = [[(await post(http, chat(f"{n}"))).status for n in range(40)] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert 8 < drawn[0].count(500) < 32
    await post(http, {"rules": [{"fault": "cut", "text": "only this"}]}, "/sim/faults")
    with pytest.raises(aiohttp.ClientError):
        await post(http, chat("only this one"))
    assert (await post(http, chat("not that"))).status == 200
    async with http.delete("/sim/faults") as response:
        assert await response.json() == {"rules": [], "slow": 1.0}
    assert (await post(http, chat("only this one"))).status == 200
    assert (await get(http, "/sim/faults")).json["rules"] == []


@pytest.mark.parametrize(
    "plan",
    [
        {"rules": [{"fault": "nonsense"}]},
        {"rules": [{"fault": "503", "every": 0}]},
        {"rules": [{"fault": "503", "odd": 1}]},
        {"slow": 0},
        [],
    ],
)
async def test_a_plan_that_cannot_be_meant_is_refused(http: aiohttp.ClientSession, plan: object) -> None:
    assert (await post(http, plan, "/sim/faults")).status == 400
    assert (await post(http, chat())).status == 200


async def test_a_slow_replica_takes_ten_times_as_long() -> None:
    async with (
        FakeEngine(TINY.paced(timedelta(milliseconds=10))) as engine,
        aiohttp.ClientSession(engine.url) as http,
    ):
        assert (await post(http, {"slow": 10}, "/sim/faults")).status == 200
        begun = asyncio.get_running_loop().time()
        await post(http, chat(max_tokens=4))
    assert asyncio.get_running_loop().time() - begun >= 0.38


async def test_a_slow_request_delays_no_other(http: aiohttp.ClientSession) -> None:
    slow = asyncio.ensure_future(post(http, chat("[[fault:slow:9000]]")))
    assert (await post(http, chat("quick"))).status == 200
    assert not slow.done()
    slow.cancel()
