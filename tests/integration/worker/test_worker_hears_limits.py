"""A worker in front of a hosted API reports what the API's answers say is left; a real server says so over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import orjson
import pytest
from aiohttp import web

from headrace.bus.memory import MemoryBus
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.reports import Allowed, Left
from headrace.devkit.engine import FakeEngine
from headrace.devkit.engine.core import Admission
from tests.integration.worker.stage import Stage, chat, staged
from tests.support.eventually import eventually_async

LIMIT = 12
IN_TEN_SECONDS = LIMIT // 6


async def allowed(stage: Stage, fits: Callable[[Allowed], bool]) -> Allowed:
    """What a report says is left, once it fits."""

    async def told() -> Allowed | None:
        said = (await stage.reports())[-1].allowed
        return said if said is not None and fits(said) else None

    found = await eventually_async(told, "a report that says what is left")
    assert found is not None
    return found


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_left_is_reported_until_it_resets_and_a_refusal_says_it_too(stream: bool) -> None:
    async with (
        FakeEngine(admission=Admission(per_minute=LIMIT)) as engine,
        staged(MemoryBus(), engine.url) as stage,
    ):
        await stage.ended(await stage.run(chat(stream=stream), stream=stream))
        said = await allowed(stage, lambda said: said.requests is not None and said.requests.left == 1)
        assert said.requests is not None
        assert (said.requests.limit, said.requests.steady) == (IN_TEN_SECONDS, False)
        assert 5_000 < said.requests.reset_ms <= 10_000
        assert said.tokens is None
        await stage.ended(await stage.run(chat(stream=stream), stream=stream))
        refused = await stage.ended(await stage.run(chat(stream=stream), stream=stream))
        assert refused.verdict is Verdict.RETRY_AT
        await allowed(stage, lambda said: said.requests is not None and said.requests.left == 0)


@asynccontextmanager
async def saying(headers: dict[str, str]) -> AsyncIterator[str]:
    """An API that answers everybody alike; its address."""

    async def answer(_: web.BaseRequest) -> web.Response:
        choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        body = {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}
        return web.Response(body=orjson.dumps(body), content_type="application/json", headers=headers)

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def test_openais_headers_are_reported_less_what_has_begun_since() -> None:
    headers = {
        "X-RateLimit-Limit-Requests": "5000",
        "X-RateLimit-Remaining-Requests": "4",
        "X-RateLimit-Reset-Requests": "59.9s",
        "X-RateLimit-Limit-Tokens": "160000",
        "X-RateLimit-Remaining-Tokens": "159976",
        "X-RateLimit-Reset-Tokens": "6m0s",
    }
    async with saying(headers) as url, staged(MemoryBus(), url, backend_kind="openai") as stage:
        await stage.ended(await stage.run(chat()))
        said = await allowed(stage, lambda said: said.requests is not None and said.requests.left is not None)
        assert said.requests is not None
        assert said.tokens is not None
        assert (said.requests.left, said.requests.limit) == (4, 5_000)
        assert (said.tokens.left, said.tokens.limit) == (159_976, 160_000)
        assert 50_000 < said.tokens.reset_ms <= 60_000


@pytest.mark.parametrize(
    ("remaining", "reset"), [("-1", "1s"), ("0", "87600h"), ("0", "-3s"), ("nan", "soon"), ("9" * 400, "1s")]
)
async def test_nonsense_costs_nothing(remaining: str, reset: str) -> None:
    headers = {"x-ratelimit-remaining-requests": remaining, "x-ratelimit-reset-requests": reset}
    async with saying(headers) as url, staged(MemoryBus(), url, backend_kind="openai") as stage:
        record = await stage.ended(await stage.run(chat()))
        assert record.status is Status.SUCCEEDED
        later = await stage.ended(await stage.run(chat()))
        assert later.status is Status.SUCCEEDED
        assert [report.allowed for report in await stage.reports() if report.allowed is not None] == []


async def test_what_was_reset_is_unknown_but_for_the_limit() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "300ms",
    }
    async with saying(headers) as url, staged(MemoryBus(), url, backend_kind="openai") as stage:
        await stage.ended(await stage.run(chat()))
        said = await allowed(stage, lambda said: said.requests == Left(limit=60))
        assert said.through.sequence == 1
