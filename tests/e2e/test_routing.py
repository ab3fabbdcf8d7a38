"""Two engines with caches of their own behind one door: who goes on with a prompt is sent to where its beginning is."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.contracts.prefixes import hashes_of
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, chat_body
from tests.support.stacks import records_in, running

pytestmark = pytest.mark.kafka

TALKS, TURNS, SLOTS = 6, 4, 8


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[EngineProcess]]:
    folder: Path = tmp_path_factory.mktemp("engines")
    with EngineProcess(log_path=folder / "one.log") as one, EngineProcess(log_path=folder / "two.log") as two:
        yield [one, two]


@pytest.fixture(scope="module")
def stack(
    kafka: str, engines: list[EngineProcess], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    backends = [Backend("main", engine.url, "vllm", SLOTS) for engine in engines]
    with running(tmp_path_factory.mktemp("routing"), kafka, topic_prefix(), backends) as stack:
        yield stack


async def talk(caller: Caller, name: str) -> list[dict[str, Any]]:
    """What the engines said that they used, turn by turn; each turn's prompt is the last one's and more."""
    said = [f"{name} begins " + f"{name} " * 900]
    found = []
    for turn in range(TURNS):
        text = " ".join(said)
        request_id = await caller.submit(chat_body(text, model="fake", max_tokens=4), tier="standard")
        await caller.ended(request_id)
        found.append((await caller.status(request_id))["usage"])
        said.append(f"and turn {turn} goes on " + f"{name}{turn} " * 300)
    return found


async def test_every_turn_of_a_conversation_finds_the_last_one_in_its_engines_cache(stack: Stack) -> None:
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        # One after the other: where many come at once, one may go where there is less to do, and find nothing there.
        talks = [await talk(atlas, f"talk-{number}") for number in range(TALKS)]
    firsts = [turns[0] for turns in talks]
    assert all(usage["cached_tokens"] < usage["prompt_tokens"] / 10 for usage in firsts), firsts
    shares = [
        usage["cached_tokens"] / before["prompt_tokens"]
        for turns in talks
        for before, usage in pairwise(turns)
    ]
    assert min(shares) > 0.9, "two engines, and every turn met the one that had the turn before"


async def test_both_engines_have_work_and_no_record_tells_what_was_asked(
    stack: Stack, engines: list[EngineProcess]
) -> None:
    async with Caller(stack.url, stack.keys["birch"]) as birch:
        await asyncio.gather(*(talk(birch, f"story-{number}") for number in range(TALKS)))
    workers = {msgspec.json.decode(record).get("worker") for record in records_in(stack, "attempts.main")}
    assert len(workers - {None}) == len(engines)
    records = [msgspec.json.decode(record) for record in records_in(stack, "requests.main.standard")]
    hinted = [record for record in records if record.get("prefix")]
    assert len(hinted) >= TALKS * TURNS
    assert all(hashes_of(record["prefix"]) for record in hinted)
    own = {record["tenant"]: set[str]() for record in hinted}
    for record in hinted:
        own[record["tenant"]].update(hashes_of(record["prefix"]))
    assert not set.intersection(*own.values()) or len(own) < 2
