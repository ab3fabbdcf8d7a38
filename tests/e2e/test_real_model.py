"""Three tenants, two tiers, four doors, a real model: each prompt ends once, with the model's own text."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import openai
import pytest

from headrace.cli.stack.plan import Backend, policy_for
from headrace.cli.stack.processes import Stack
from headrace.devkit.model import ModelServer
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, Outcome, chat_body, text_of
from tests.support.eventually import eventually
from tests.support.stacks import WEIGHTS, headers_in, records_in, rows_of, running

pytestmark = [pytest.mark.kafka, pytest.mark.model]

TOKENS, TIERS = 10, ("interactive", "batch")
WORDS = """
    apple bridge candle desert engine forest garden harbor island jungle
    kettle ladder mirror needle orange pencil quartz ribbon silver tunnel
"""
PROMPTS = [f"Write one sentence about the word {word}." for word in WORDS.split()]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def own_texts(model: ModelServer) -> dict[str, str]:
    """What the model says by itself, asked before headrace starts."""
    return asyncio.run(asked_directly(model.url))


async def asked_directly(url: str) -> dict[str, str]:
    async with aiohttp.ClientSession(url) as session:
        texts = {}
        for prompt in PROMPTS:
            body = chat_body(prompt, model="smollm2", max_tokens=TOKENS)
            async with session.post("/v1/chat/completions", json=body) as response:
                texts[prompt] = text_of(await response.read())
        return texts


@pytest.fixture(scope="module")
def stack(
    kafka: str, model: ModelServer, own_texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    assert all(own_texts.values())
    folder: Path = tmp_path_factory.mktemp("real")
    policy = policy_for(WEIGHTS, {"smollm2": {"smollm2": "smollm2"}}, queue_timeout="10m")
    with running(
        folder, kafka, topic_prefix(), [Backend("smollm2", model.url, "llama.cpp", 4)], policy
    ) as stack:
        yield stack


async def ask(caller: Caller, number: int, prompt: str, tier: str) -> tuple[str, Outcome]:
    doors = (caller.poll, caller.wait_natively, caller.wait_on_openai, caller.stream_on_openai)
    body = chat_body(prompt, model="smollm2", max_tokens=TOKENS)
    return prompt, await doors[number % len(doors)](body, tier=tier)


async def tenants_prompts(stack: Stack, tenant: str) -> list[tuple[str, Outcome]]:
    async with Caller(stack.url, stack.keys[tenant]) as caller:
        asked = [ask(caller, n, prompt, tier) for tier in TIERS for n, prompt in enumerate(PROMPTS)]
        return await asyncio.gather(*asked)


async def test_every_prompt_ends_once_with_the_models_own_text(
    stack: Stack, own_texts: dict[str, str]
) -> None:
    by_tenant = await asyncio.gather(*(tenants_prompts(stack, tenant) for tenant in WEIGHTS))
    answers = [answer for tenant in by_tenant for answer in tenant]
    assert len(answers) == len(WEIGHTS) * len(TIERS) * len(PROMPTS)
    assert [(p, o.http_status, o.text) for p, o in answers] == [(p, 200, own_texts[p]) for p, _ in answers]

    ids = {outcome.id for _, outcome in answers}
    assert len(ids) == len(answers)
    assert {row[0]: row[3] for row in rows_of(stack) if row[0] in ids} == dict.fromkeys(ids, "succeeded")
    assert len(records_in(stack, "results")) == len(answers)
    eventually(lambda: len(headers_in(stack, "events")) == len(answers), "one CloudEvent for each")
    assert {headers["ce_subject"].decode() for headers in headers_in(stack, "events")} == ids


async def test_the_official_client_works_unchanged(stack: Stack, own_texts: dict[str, str]) -> None:
    prompt = PROMPTS[0]
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=stack.keys["birch"]) as client:
        assert [model.id async for model in client.models.list()] == ["smollm2"]
        plain = await client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": prompt}], max_tokens=TOKENS, temperature=0
        )
        assert plain.choices[0].message.content == own_texts[prompt]
        assert plain.usage is not None
        assert plain.usage.completion_tokens > 0
        stream = await client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": prompt}],
            max_tokens=TOKENS,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == own_texts[prompt]
    assert chunks[-1].usage is not None
