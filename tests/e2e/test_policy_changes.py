"""A policy file that changes under running services: it takes effect, or is refused by each of them, and nobody restarts."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from headrace.cli.api_keys import mint_key, policy_line
from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, chat_body
from tests.support.eventually import eventually, eventually_async
from tests.support.stacks import replace_policy, running, sample

pytestmark = pytest.mark.kafka

FOUR = ("ingest", "scheduler", "inference-worker", "result-delivery")
BODY = chat_body("hello", model="fake", max_tokens=4)


@pytest.fixture(scope="module")
def stack(kafka: str, engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("policy")
    with running(folder, kafka, topic_prefix(), [Backend("main", engine.url, "vllm", 8)]) as stack:
        yield stack


@pytest.fixture
def good(stack: Stack) -> Iterator[str]:
    """The policy as it was; so it is again afterwards, everywhere."""
    text = stack.policy_path.read_text()
    yield text
    replace_policy(stack, text)
    eventually(lambda: refusals(stack) == [0.0] * 4, "the old policy holds again")


def refusals(stack: Stack) -> list[float]:
    return [sample(stack, service, "headrace_policy_refused") for service in FOUR]


def changes(stack: Stack, service: str) -> float:
    return sample(stack, service, "headrace_policy_changes_total")


async def status_of(stack: Stack, key: str) -> int:
    async with Caller(stack.url, key) as caller:
        return (await caller.wait_on_openai(BODY, tier="standard")).http_status


async def test_a_new_tenant_is_served_and_one_that_is_taken_out_isnt(stack: Stack, good: str) -> None:
    key, boots = mint_key(), [service.pid for service in stack.services.values()]
    assert await status_of(stack, key) == 401
    replace_policy(stack, f"{good}\n[tenants.dogwood]\n{policy_line(key)}\n")

    async def served() -> bool:
        return await status_of(stack, key) == 200

    await eventually_async(served, "the new tenant is served")
    replace_policy(stack, good)

    async def refused() -> bool:
        return await status_of(stack, key) == 401

    await eventually_async(refused, "its key is refused again")
    assert [service.pid for service in stack.services.values()] == boots


@pytest.mark.parametrize(
    "wrong", ["[pools", "\n[tenants.zeta]\nweight = -1\n", "\n[topics]\nlanes = 3\n", None], ids=str
)
async def test_each_service_refuses_what_is_wrong_and_goes_on(
    stack: Stack, good: str, wrong: str | None
) -> None:
    before = [changes(stack, service) for service in FOUR]
    if wrong is None:
        stack.policy_path.unlink()
    else:
        replace_policy(stack, good + wrong)
    await asyncio.to_thread(eventually, lambda: refusals(stack) == [1.0] * 4, "all four refuse it")
    assert await status_of(stack, stack.keys["atlas"]) == 200
    assert [changes(stack, service) for service in FOUR] == before
    for service in FOUR:
        lines = [line for line in stack.services[service].last_lines(200) if "policy refused" in line]
        assert lines


async def test_a_ceiling_holds_from_the_next_decision_on_and_sighup_reads_at_once(
    stack: Stack, good: str
) -> None:
    key = stack.keys["birch"]
    paced = good.replace("[tenants.birch]", '[tenants.birch]\nceilings = [{ requests = 1, per = "1h" }]')
    assert paced != good
    before = changes(stack, "scheduler")
    replace_policy(stack, paced)
    for service in FOUR:
        os.kill(stack.services[service].pid, signal.SIGHUP)
    await asyncio.to_thread(
        eventually, lambda: changes(stack, "scheduler") == before + 1, "the scheduler has it"
    )
    assert await status_of(stack, key) == 200
    async with Caller(stack.url, key) as caller:
        request_id = await caller.submit(BODY, tier="standard")

        async def gates() -> list[str]:
            async with caller.session.get(f"/v1/requests/{request_id}/why") as response:
                return [gate["gate"] for gate in (await response.json())["gates"]]

        async def is_paced() -> bool:
            return "ceiling" in await gates()

        await eventually_async(is_paced, "it waits for its ceiling")
        assert await status_of(stack, stack.keys["atlas"]) == 200, "others go on"
        replace_policy(stack, good)

        async def succeeded() -> bool:
            async with caller.session.get(f"/v1/requests/{request_id}") as response:
                return bool((await response.json())["status"] == "succeeded")

        await eventually_async(succeeded, "without the ceiling it runs")
