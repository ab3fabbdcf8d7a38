"""A pool without a backend, and its fallback: requests are served there, under their ids, whoever is killed meanwhile."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from headrace.cli.stack.plan import Backend, policy_for
from headrace.cli.stack.processes import Stack
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, chat_body
from tests.support.eventually import eventually, eventually_async
from tests.support.stacks import WEIGHTS, records_in, rows_of, running

pytestmark = pytest.mark.kafka

MODELS = {"home": {"big": "big-v1"}, "away": {"small": "fake"}}
POLICY = policy_for(WEIGHTS, MODELS, queue_timeout="10m").replace(
    "[pools.home.models]",
    '[[pools.home.fallbacks]]\npool = "away"\nwait_above = "3s"\n[pools.home.models]',
)


@pytest.fixture(scope="module")
def stack(kafka: str, engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("fallbacks")
    with running(folder, kafka, topic_prefix(), [Backend("away", engine.url, "vllm", 4)], POLICY) as stack:
        yield stack


async def test_who_waits_on_openais_route_is_answered_by_the_fallback(stack: Stack) -> None:
    body = chat_body("over there", model="big", max_tokens=4)
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        outcome = await atlas.wait_on_openai(body, tier="standard")
    assert outcome.http_status == 200
    assert b'"model":"fake"' in outcome.body.replace(b'": "', b'":"')


async def test_a_status_says_which_model_served_it_and_the_ledger_which_pool(stack: Stack) -> None:
    async with Caller(stack.url, stack.keys["birch"]) as birch:
        request_id = await birch.submit(chat_body("and then", model="big", max_tokens=4), tier="batch")
        await birch.ended(request_id)
        document = await birch.status(request_id)
    assert (document["status"], document["model"]) == ("succeeded", "fake")
    query = f"SELECT pool, model FROM ledger WHERE id = '{request_id}'"  # noqa: S608 our own id
    eventually(lambda: rows_of(stack, query) == [("away", "fake")], "the attempt is booked")


async def test_a_cancel_and_a_question_find_a_request_that_was_passed_on(stack: Stack) -> None:
    body = chat_body("[[fault:slow:400]] for long", model="big", max_tokens=200)
    async with Caller(stack.url, stack.keys["cedar"]) as cedar:
        request_id = await cedar.submit(body, tier="interactive")

        async def runs() -> str | None:
            document = await cedar.status(request_id)
            return document["model"] if document["status"] == "running" else None

        assert await eventually_async(runs, "it runs") == "fake"
        await cedar.cancel(request_id)
        await cedar.ended(request_id)
        assert (await cedar.status(request_id))["status"] == "cancelled"


async def test_a_cancel_reaches_what_went_on_while_its_first_pool_has_no_owner(stack: Stack) -> None:
    body = chat_body("[[fault:slow:400]] for long, too", model="big", max_tokens=200)
    async with Caller(stack.url, stack.keys["cedar"]) as cedar:
        request_id = await cedar.submit(body, tier="interactive")
        query = f"SELECT pool, hop FROM requests WHERE id = '{request_id}'"  # noqa: S608 our own id
        await asyncio.to_thread(
            eventually, lambda: rows_of(stack, query) == [("away", 1)], "it has gone, and that is noted"
        )
        with only_for(stack, "away"):
            await cedar.cancel(request_id)
            await cedar.ended(request_id)
            assert (await cedar.status(request_id))["status"] == "cancelled"


@contextmanager
def only_for(stack: Stack, pool: str) -> Iterator[None]:
    """The scheduler is killed, and another comes that serves this pool alone."""
    all_pools = stack.scheduler._env
    stack.scheduler.kill()
    stack.scheduler._env = {**all_pools, "HEADRACE_SCHEDULER_POOLS": pool}
    stack.scheduler.restart()
    try:
        yield
    finally:
        stack.scheduler._env = all_pools
        stack.scheduler.restart()


async def test_a_killed_scheduler_loses_and_repeats_nothing_that_is_on_its_way(stack: Stack) -> None:
    body = chat_body("on the way", model="big", max_tokens=4)
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        for gone in (1, 5, 10):
            ids = await asyncio.gather(*(atlas.submit(body, tier="standard") for _ in range(10)))
            await asyncio.to_thread(
                eventually, partial(in_the_other_log, stack, ids, gone), f"{gone} have gone"
            )
            stack.scheduler.kill()
            await asyncio.to_thread(stack.scheduler.restart)
            outcomes = await asyncio.gather(*(atlas.ended(each) for each in ids))
            assert [outcome.http_status for outcome in outcomes] == [200] * 10
            await asyncio.to_thread(eventually, partial(tried_once, stack, ids), "each was tried once")


def in_the_other_log(stack: Stack, ids: list[str], count: int) -> bool:
    """Whether so many of them, or more, have come there."""
    there = b"".join(records_in(stack, "requests.away.standard"))
    return sum(each.encode() in there for each in ids) >= count


def tried_once(stack: Stack, ids: list[str]) -> bool:
    among = ", ".join(repr(each) for each in ids)
    return rows_of(stack, f"SELECT pool, count(*) FROM ledger WHERE id IN ({among}) GROUP BY pool") == [  # noqa: S608
        ("away", len(ids))
    ]
