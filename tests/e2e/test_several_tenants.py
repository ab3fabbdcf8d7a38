"""Several tenants and tiers at once: shares follow weights, time-outs end the wait, states and numbers can be seen."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, chat_body
from tests.support.eventually import eventually
from tests.support.stacks import FAKE, WEIGHTS, rows_of, running

pytestmark = pytest.mark.kafka

SLOTS, EACH = 2, 40


@pytest.fixture(scope="module")
def stack(kafka: str, engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("tenants")
    policy = FAKE.replace('[tiers.batch]\nweight = 1\nfloor_percent = 5\nqueue_timeout = "10m"', (
        '[tiers.batch]\nweight = 1\nfloor_percent = 5\nqueue_timeout = "1s"'
    ))  # fmt: skip
    assert policy != FAKE
    backends = [Backend("main", engine.url, "vllm", SLOTS)]
    with running(folder, kafka, topic_prefix(), backends, policy) as stack:
        yield stack


async def submit_many(stack: Stack, tenant: str, tier: str, count: int, pace_ms: int = 10) -> list[str]:
    body = chat_body(f"{tenant} [[fault:slow:{pace_ms}]]", model="fake", max_tokens=8)
    async with Caller(stack.url, stack.keys[tenant]) as caller:
        return await asyncio.gather(*(caller.submit(body, tier=tier) for _ in range(count)))


async def test_tokens_are_shared_by_weight_while_all_have_work_waiting(stack: Stack) -> None:
    # A plug keeps both slots busy until every tenant's backlog has been accepted.
    plug = await submit_many(stack, "atlas", "standard", SLOTS, pace_ms=400)
    ids = {tenant: await submit_many(stack, tenant, "standard", EACH) for tenant in WEIGHTS}
    everything = {request_id for some in ids.values() for request_id in some}
    query = "SELECT id, tenant FROM results ORDER BY started_ms, attempt_epoch, attempt_sequence"

    def all_rows() -> list[str] | None:
        rows = [(row[0], row[1]) for row in rows_of(stack, query) if row[0] in everything]
        return [tenant for _, tenant in rows] if len(rows) == len(everything) else None

    order = await asyncio.to_thread(eventually, all_rows, "all have ended") or []
    assert plug
    contested = Counter(order[: 2 * EACH])  # atlas, of weight 2, has just run out of work then
    assert abs(contested["atlas"] - EACH) <= 3, contested
    assert abs(contested["birch"] - EACH // 2) <= 3, contested
    assert abs(contested["cedar"] - EACH // 2) <= 3, contested


async def test_what_waits_longer_than_its_tiers_time_out_expires_and_is_told(stack: Stack) -> None:
    plug = await submit_many(stack, "atlas", "interactive", SLOTS, pace_ms=400)
    [late] = await submit_many(stack, "birch", "batch", 1)
    async with Caller(stack.url, stack.keys["birch"]) as birch:
        outcome = await birch.ended(late)
        document = await birch.status(late)
    assert document["status"] == "expired"
    assert document["failure"]["code"] == "queue_timeout"
    assert outcome.http_status != 200
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        assert [(await atlas.ended(one)).http_status for one in plug] == [200] * SLOTS


async def test_a_caller_sees_its_place_its_run_and_its_end(stack: Stack) -> None:
    plug = await submit_many(stack, "cedar", "interactive", SLOTS, pace_ms=300)
    async with Caller(stack.url, stack.keys["cedar"]) as cedar:

        async def seen(request_id: str, status: str) -> dict[str, Any]:
            async with asyncio.timeout(20):
                while (document := await cedar.status(request_id))["status"] != status:
                    await asyncio.sleep(0.02)
                return document

        for request_id in plug:
            await seen(request_id, "running")
        waiting = await submit_many(stack, "cedar", "interactive", 3)
        positions = [(await seen(request_id, "queued"))["position"] for request_id in waiting]
        assert sorted(positions) == [0, 1, 2]
        assert (await cedar.ended(waiting[-1])).http_status == 200
        assert (await seen(waiting[-1], "succeeded"))["usage"]


async def test_a_queued_request_is_cancelled_without_costing_a_backend_anything(stack: Stack) -> None:
    plug = await submit_many(stack, "atlas", "interactive", SLOTS, pace_ms=300)
    [waiting] = await submit_many(stack, "atlas", "interactive", 1)
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        assert await atlas.cancel(waiting) == 202
        await atlas.ended(waiting)
        document = await atlas.status(waiting)
        assert document["status"] == "cancelled"
        assert document["times"]["started_at"] is None
        assert await atlas.cancel(waiting) == 200
        assert [(await atlas.ended(one)).http_status for one in plug] == [200] * SLOTS


async def test_every_service_tells_that_it_lives_is_ready_and_counts(stack: Stack) -> None:
    async with aiohttp.ClientSession() as session:
        for service in stack.services.values():
            for path in ("/livez", "/readyz"):
                async with session.get(service.health_url + path) as answer:
                    assert answer.status == 200, (service.name, path)
            async with session.get(service.health_url + "/metrics") as answer:
                assert b"headrace_build_info" in await answer.read()


def test_no_log_line_holds_a_prompt_or_a_key(stack: Stack) -> None:
    logs = "\n".join(service.log_path.read_text() for service in stack.services.values())
    assert "[[fault" not in logs
    assert not any(key in logs for key in stack.keys.values())
