"""Long answers that give way to urgent requests, on a real broker: each comes to the text of an undisturbed one."""

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.devkit.engine.words import chat_tokens
from headrace.devkit.served import EngineProcess
from tests.e2e.conftest import Journal
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, Outcome, chat_body, text_of_stream
from tests.support.eventually import eventually
from tests.support.stacks import FAKE, rows_of, running, sample

pytestmark = pytest.mark.kafka

LENGTH, PACE_MS = 100, 60


@pytest.fixture(scope="module")
def stack(kafka: str, engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    policy = FAKE.replace("[tiers.interactive]\n", "[tiers.interactive]\nheadroom_percent = 10\n")
    policy = policy.replace("[tiers.batch]\n", "[tiers.batch]\npreemptible = true\n")
    backends = [Backend("main", engine.url, "vllm", 1)]
    with running(tmp_path_factory.mktemp("goes_on"), kafka, topic_prefix(), backends, policy) as stack:
        yield stack


def body_of(prompt: str, length: int = LENGTH) -> dict[str, Any]:
    return chat_body(f"{prompt} [[fault:slow:{PACE_MS}]]", model="fake", max_tokens=length)


def undisturbed(prompt: str) -> str:
    return "".join(islice(chat_tokens(f"user: {prompt} [[fault:slow:{PACE_MS}]]"), LENGTH))


async def has_said_some(caller: Caller, request_id: str) -> None:
    async with asyncio.timeout(30):
        while (await caller.status(request_id)).get("tokens", 0) < 5:
            await asyncio.sleep(0.05)


def stops_of(stack: Stack, request_id: str) -> list[tuple[int, str]]:
    """Tokens that each attempt of it spent, and how it failed."""
    query = "SELECT completion_tokens, failure_kind, id FROM ledger ORDER BY attempt_epoch, attempt_sequence"
    return [(tokens, kind) for tokens, kind, of in rows_of(stack, query) if of == request_id]


def goes_on(journal: Journal, prompt: str) -> list[bool]:
    """Of each call for a prompt, whether it went on from a text."""
    return [b"continue_final_message" in one.request for one in journal.with_text(prompt)]


def checkpoints(stack: Stack) -> float:
    """How many its scheduler has committed."""
    return sample(stack, "scheduler", "headrace_checkpoint_seconds_count")


async def checked(stack: Stack, outcome: Outcome, prompt: str) -> None:
    """One answer, as if nothing had been."""
    assert (outcome.http_status, outcome.text) == (200, undisturbed(prompt))
    query = "SELECT id, completion_tokens, prompt_tokens FROM results"
    (row,) = [row for row in rows_of(stack, query) if row[0] == outcome.id]
    assert row[1] == LENGTH, "each token is told once"
    await asyncio.to_thread(
        eventually, lambda: len(stops_of(stack, outcome.id)) == 2, "both attempts are booked"
    )
    spent = stops_of(stack, outcome.id)
    assert sum(tokens for tokens, _ in spent) == LENGTH, "and was made once"
    assert [kind for _, kind in spent] == ["preempted", None]


async def test_an_answer_that_gave_way_goes_on_to_the_text_of_an_undisturbed_one(
    stack: Stack, journal: Journal
) -> None:
    prompt = "A long tale"
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        long = await atlas.submit(body_of(prompt), tier="batch")
        await has_said_some(atlas, long)
        urgent = await atlas.wait_on_openai(body_of("Quick", 5), tier="interactive")
        assert urgent.http_status == 200
        await checked(stack, await atlas.ended(long), prompt)
    assert goes_on(journal, prompt) == [False, True]


async def test_a_stream_that_gave_way_goes_on_where_it_was(stack: Stack, journal: Journal) -> None:
    prompt, raw, urgent = "A long song", b"", None
    async with Caller(stack.url, stack.keys["birch"]) as birch:
        body = {**body_of(prompt), "stream": True}
        sent = birch.session.post("/v1/chat/completions", json=body, headers={"X-Priority": "batch"})
        async with sent as response:
            async for piece in response.content.iter_any():
                raw += piece
                if urgent is None and raw.count(b'"content"') > 5:
                    quick = birch.wait_on_openai(body_of("Quicker", 5), tier="interactive")
                    urgent = asyncio.create_task(quick)
            request_id = response.headers["x-request-id"]
        assert urgent is not None
        assert (await urgent).http_status == 200
    assert b'"error"' not in raw
    await checked(stack, Outcome(request_id, 200, text_of_stream(raw), raw), prompt)
    assert goes_on(journal, prompt) == [False, True]


async def test_the_next_owner_reads_a_text_again_and_it_is_gone_on_with(
    stack: Stack, journal: Journal
) -> None:
    prompt = "A long speech"
    async with Caller(stack.url, stack.keys["cedar"]) as cedar:
        long = await cedar.submit(body_of(prompt), tier="batch")
        await has_said_some(cedar, long)
        urgent = await cedar.submit(body_of("Urgent", 150), tier="interactive")
        await asyncio.to_thread(eventually, lambda: bool(stops_of(stack, long)), "it gave way")
        committed = checkpoints(stack)  # the one under way may have begun before that
        await asyncio.to_thread(eventually, lambda: checkpoints(stack) >= committed + 2, "one tells of it")
        stack.scheduler.kill()
        await asyncio.to_thread(stack.scheduler.restart)
        assert (await cedar.ended(urgent)).http_status == 200
        await checked(stack, await cedar.ended(long), prompt)
    assert goes_on(journal, prompt) == [False, True]
