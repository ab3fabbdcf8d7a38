"""Pools and tiers come and go while all services run: what comes waits for its topics, what goes is served to its end."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from headrace.cli.stack.plan import Backend, policy_for
from headrace.cli.stack.processes import Stack, environment_of
from headrace.cli.stack.service import ServiceProcess
from headrace.devkit.ports import free_port
from headrace.devkit.served import EngineProcess
from headrace.inference_worker.settings import WorkerSettings
from headrace.runtime.policy_file import load_policy
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, chat_body
from tests.support.eventually import eventually
from tests.support.stacks import WEIGHTS, replace_policy, rows_of, running, sample

pytestmark = pytest.mark.kafka

POLICY = policy_for(WEIGHTS, {"main": {"fake": "fake"}}, queue_timeout="10m")
BIG = '\n[pools.big.models]\nlarge = "fake"\n'
BULK = '\n[tiers.bulk]\nweight = 2\nqueue_timeout = "1h"\n'


@pytest.fixture(scope="module")
def stack(kafka: str, engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("come-and-go")
    backends = [Backend("main", engine.url, "vllm", 4)]
    with running(folder, kafka, topic_prefix(), backends, POLICY) as stack:
        yield stack


async def http_status(stack: Stack, body: dict[str, Any], tier: str = "standard") -> int:
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        headers = {"X-Priority": tier}
        async with atlas.session.post("/v1/requests", json=body, headers=headers) as response:
            return response.status


def worker_of(stack: Stack, pool: str, engine: EngineProcess) -> ServiceProcess:
    """One more worker, as an operator starts it once the pool is there."""
    values = {
        "kafka": stack.bootstrap, "prefix": stack.prefix, "policy": stack.policy_path, "name": f"worker-{pool}",
        "pool": pool, "backend_url": engine.url, "health_port": (port := free_port()),
    }  # fmt: skip
    return ServiceProcess(
        f"worker-{pool}",
        [sys.executable, "-m", "headrace.inference_worker"],
        env=environment_of(WorkerSettings, values),
        log_path=stack.folder / "logs" / f"worker-{pool}.log",
        health_port=port,
    )


async def wait_until(condition: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(eventually, condition, what)


def holds(stack: Stack, changes: int) -> bool:
    """Whether so many other policies have taken effect in each service that goes by them."""
    names = ("ingest", "scheduler", "result-delivery")
    return [sample(stack, name, "headrace_policy_changes_total") for name in names] == [changes] * 3


def refused(stack: Stack) -> list[float]:
    names = ("ingest", "scheduler", "result-delivery")
    return [sample(stack, name, "headrace_policy_refused") for name in names]


async def test_a_pool_and_a_tier_come_and_go_and_nothing_accepted_is_lost_or_repeated(
    stack: Stack, engine: EngineProcess
) -> None:
    boots = [service.pid for service in stack.services.values()]
    old = stack.policy_path.read_text()
    slow = chat_body("[[fault:slow:300]] on and on", model="fake", max_tokens=40)
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        running_on = await atlas.submit(slow, tier="batch")
        replace_policy(stack, old + BIG + BULK)
        await wait_until(lambda: refused(stack) == [1.0] * 3, "they wait for the topics")
        assert await http_status(stack, chat_body("too early", model="large", max_tokens=4)) == 404
        stack.apply_topics(load_policy(stack.policy_path))
        await wait_until(partial(holds, stack, 1), "the pool and the tier are there")
        assert refused(stack) == [0.0] * 3

        bulk = await atlas.submit(chat_body("in bulk", model="fake", max_tokens=4), tier="bulk")
        large = [
            await atlas.submit(chat_body(f"a large one {number}", model="large", max_tokens=4), tier=tier)
            for number, tier in enumerate(("bulk", "standard"))
        ]
        assert (await atlas.ended(bulk)).http_status == 200
        replace_policy(stack, old)
        await wait_until(partial(holds, stack, 2), "they are gone from the policy")
        assert await http_status(stack, chat_body("too late", model="large", max_tokens=4)) == 404
        assert await http_status(stack, chat_body("hello", model="fake", max_tokens=4), tier="bulk") == 422

        replace_policy(stack, old + BIG)
        await wait_until(partial(holds, stack, 3), "the pool is back, or its worker wouldn't start")
        worker = worker_of(stack, "big", engine)
        worker.launch()
        try:
            await asyncio.to_thread(worker.await_ready)
            replace_policy(stack, old)
            await wait_until(partial(holds, stack, 4), "and gone again")
            for request_id in (*large, running_on):
                assert (await atlas.ended(request_id)).http_status == 200, "what was accepted is served"
        finally:
            worker.ask_to_end()
            await asyncio.to_thread(worker.await_end)
    await wait_until(
        lambda: rows_of(stack, "SELECT count(*), count(DISTINCT id) FROM ledger") == [(4, 4)],
        "each has run once, over every change of the pools' owners",
    )
    assert rows_of(stack, "SELECT DISTINCT status FROM results") == [("succeeded",)]
    assert [service.pid for service in stack.services.values()] == boots
