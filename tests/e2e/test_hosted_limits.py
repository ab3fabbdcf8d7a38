"""A hosted API that refuses more than it takes in a minute: whether its operator says how much that is, or its own answers
say what is left, it refuses nothing.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.contracts.explanations import Gate
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, chat_body
from tests.support.engine_http import get
from tests.support.eventually import eventually, eventually_async
from tests.support.stacks import rows_of, running

pytestmark = pytest.mark.kafka

PER_MINUTE, IN_TEN_SECONDS = 120, 20
"""The engine counts by ten seconds, too, so more than so many at once would be refused at once."""


TOLD, UNTOLD = "its operator says so", "its answers say so"


@pytest.fixture(scope="module")
def hosted(told: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:  # noqa: ARG001 - one each
    log = tmp_path_factory.mktemp("hosted") / "engine.log"
    with EngineProcess("--requests-per-minute", str(PER_MINUTE), log_path=log) as engine:
        yield engine


@pytest.fixture(scope="module", params=[TOLD, UNTOLD])
def told(request: pytest.FixtureRequest) -> str:
    """By whom it is known what it takes."""
    by: str = request.param
    return by


@pytest.fixture(scope="module")
def stack(
    told: str, kafka: str, hosted: EngineProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("hosted-stack")
    extra = {"inference_worker": {"requests_per_minute": PER_MINUTE}} if told == TOLD else {}
    backends = [Backend("main", hosted.url, "vllm", 64 if told == TOLD else 8)]
    with running(folder, kafka, topic_prefix(), backends, extra=extra) as stack:
        yield stack


async def stats(hosted: EngineProcess) -> dict[str, int]:
    async with aiohttp.ClientSession(hosted.url) as http:
        found: dict[str, int] = (await get(http, "/sim/stats")).json
        return found


async def test_it_refuses_nothing_and_nothing_fails_even_when_the_owner_is_killed(
    stack: Stack, hosted: EngineProcess
) -> None:
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        ids = [
            await atlas.submit(
                chat_body(f"one of many, {number}", model="fake", max_tokens=4), tier="standard"
            )
            for number in range(IN_TEN_SECONDS + 12)
        ]

        async def some_ran() -> bool:
            return (await stats(hosted))["completed"] >= 6

        await eventually_async(some_ran, "some have run")

        async def waits_for_it() -> bool:
            return [each["gate"] for each in (await why(atlas, ids[-1]))["gates"]] == [Gate.BACKEND_CEILING]

        await eventually_async(waits_for_it, "it says why")
        stack.scheduler.kill()
        await asyncio.to_thread(stack.scheduler.restart)
        await asyncio.gather(*(atlas.ended(request_id) for request_id in ids))
    counts = await stats(hosted)
    assert (counts["completed"], counts["failed"]) == (len(ids), 0)
    assert rows_of(stack, "SELECT DISTINCT status FROM results") == [("succeeded",)]
    await asyncio.to_thread(
        eventually,
        lambda: rows_of(stack, "SELECT COUNT(*) FROM ledger") == [(len(ids),)],
        "each was tried once",
    )


async def why(caller: Caller, request_id: str) -> dict[str, Any]:
    async with caller.session.get(f"/v1/requests/{request_id}/why") as response:
        document: dict[str, Any] = await response.json()
        return document
