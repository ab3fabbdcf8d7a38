"""kill -9 of any service, and of the engine, under load: every accepted request ends once, and none is lost."""

import asyncio

import pytest

from headrace.cli.stack.processes import Stack
from headrace.devkit.served import EngineProcess
from tests.support.callers import Caller, Outcome, chat_body
from tests.support.eventually import eventually
from tests.support.stacks import rows_of

pytestmark = pytest.mark.kafka

REQUESTS = 24


async def submit_all(caller: Caller, mark: str) -> list[str]:
    bodies = [
        chat_body(f"{mark} {n} [[fault:slow:40]]", model="fake", max_tokens=10 + n % 5)
        for n in range(REQUESTS)
    ]
    return await asyncio.gather(*(caller.submit(body, tier="standard") for body in bodies))


async def all_end(caller: Caller, ids: list[str]) -> list[Outcome]:
    return await asyncio.gather(*(caller.ended(request_id, wait=None) for request_id in ids))


def finished(stack: Stack, ids: list[str]) -> list[str]:
    return [row[0] for row in rows_of(stack) if row[0] in set(ids)]


@pytest.mark.parametrize("victim", ["scheduler", "inference-worker", "result-delivery"])
async def test_a_killed_service_loses_no_request(stack: Stack, victim: str) -> None:
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        ids = await submit_all(atlas, f"kill {victim}")
        await asyncio.to_thread(eventually, lambda: len(finished(stack, ids)) >= 3, "some have ended")
        stack.services[victim].kill()
        await asyncio.to_thread(stack.services[victim].restart)
        outcomes = await all_end(atlas, ids)
    assert [outcome.http_status for outcome in outcomes] == [200] * REQUESTS
    assert sorted(finished(stack, ids)) == sorted(ids)


async def test_a_killed_ingest_loses_nothing_that_it_accepted(stack: Stack) -> None:
    async with Caller(stack.url, stack.keys["birch"]) as birch:
        ids = await submit_all(birch, "kill ingest")
    stack.ingest.kill()
    await asyncio.to_thread(stack.ingest.restart)
    async with Caller(stack.url, stack.keys["birch"]) as birch:
        outcomes = await all_end(birch, ids)
    assert [outcome.http_status for outcome in outcomes] == [200] * REQUESTS


async def test_a_killed_engine_costs_an_attempt_and_no_request(stack: Stack, engine: EngineProcess) -> None:
    async with Caller(stack.url, stack.keys["cedar"]) as cedar:
        ids = await submit_all(cedar, "kill engine")
        await asyncio.to_thread(eventually, lambda: len(finished(stack, ids)) >= 3, "some have ended")
        engine.child.kill()
        await asyncio.to_thread(engine.start)
        outcomes = await all_end(cedar, ids)
    assert [outcome.http_status for outcome in outcomes] == [200] * REQUESTS


async def test_a_terminated_worker_drains_and_another_boot_goes_on(stack: Stack) -> None:
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        ids = await submit_all(atlas, "drain")
        await asyncio.to_thread(eventually, lambda: len(finished(stack, ids)) >= 3, "some have ended")
        assert await asyncio.to_thread(stack.worker.terminate) == 0
        await asyncio.to_thread(stack.worker.restart)
        outcomes = await all_end(atlas, ids)
    assert [outcome.http_status for outcome in outcomes] == [200] * REQUESTS
    assert {row[1] for row in rows_of(stack, "SELECT id, attempts FROM results") if row[0] in set(ids)} == {1}
