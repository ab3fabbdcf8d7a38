"""One prompt among 256 kills its worker, or its engine, each time: it is found and taken out, and the others are answered."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.contracts.failures import FailureKind
from headrace.contracts.observations import DeadLetter
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, Outcome, chat_body
from tests.support.stacks import records_in, rows_of, running
from tests.support.watched_door import WatchedDoor

pytestmark = pytest.mark.kafka

PROMPTS, KILLER, SLOTS = 256, 77, 8
WORKERS = ("inference-worker", "inference-worker-2")


@contextmanager
def restarted(children: dict[str, Callable[[], Any]]) -> Iterator[Counter[str]]:
    """As an operator's supervisor does: what ended is started again a moment later. Yields the deaths by name."""
    deaths: Counter[str] = Counter()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            for name, served in children.items():
                process = served()
                if not process.child.alive:
                    deaths[name] += 1
                    process.launch()

    thread = threading.Thread(target=watch, name="supervisor")
    thread.start()
    try:
        yield deaths
    finally:
        over.set()
        thread.join()


async def all_answered(stack: Stack, fault: str) -> list[Outcome]:
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        texts = [f"prompt number {n}. {fault if n == KILLER else ''}" for n in range(PROMPTS)]
        bodies = [chat_body(text, model="fake", max_tokens=8) for text in texts]
        ids = await asyncio.gather(*(atlas.submit(body, tier="standard") for body in bodies))
        return await asyncio.gather(*(atlas.ended(request, wait="20s", within=240) for request in ids))


def assert_the_killer_alone_was_taken_out(
    stack: Stack, outcomes: list[Outcome], deaths: Counter[str], kind: FailureKind
) -> DeadLetter:
    killer = outcomes[KILLER]
    others = [outcome.http_status for number, outcome in enumerate(outcomes) if number != KILLER]
    assert others == [200] * (PROMPTS - 1)
    assert killer.http_status == 422
    assert msgspec.json.decode(killer.body)["code"] == "killed_workers"
    rows = {row[0]: row[1:] for row in rows_of(stack, "SELECT id, status, attempts FROM results")}
    assert Counter(status for status, _ in rows.values()) == {"succeeded": PROMPTS - 1, "dead_lettered": 1}
    assert max(attempts for status, attempts in rows.values() if status == "succeeded") <= 3
    [letter] = [msgspec.json.decode(record, type=DeadLetter) for record in records_in(stack, "dlq")]
    assert (letter.id, letter.reason) == (killer.id, FailureKind.KILLED_WORKERS)
    assert [death.kind for death in letter.deaths] == [kind] * len(letter.deaths)
    assert letter.deaths[-1].suspects == (killer.id,)
    assert {death.worker for death in letter.deaths} <= set(WORKERS)
    assert deaths.total() == len(letter.deaths) <= 3
    return letter


def test_a_prompt_that_kills_its_worker_is_found_after_three_deaths(kafka: str, tmp_path: Path) -> None:
    with ExitStack() as started:
        engines = [
            started.enter_context(EngineProcess("--token-ms", "20", log_path=tmp_path / f"engine-{n}.log"))
            for n in range(2)
        ]
        stacks: list[Stack] = []

        def saw(worker: str) -> Callable[[int], None]:
            def kill(number: int) -> None:
                if number == KILLER:
                    stacks[0].services[worker].kill()

            return kill

        doors = [
            started.enter_context(WatchedDoor(engine.port, saw(worker)))
            for engine, worker in zip(engines, WORKERS, strict=True)
        ]
        backends = [Backend("main", door.url, "vllm", SLOTS) for door in doors]
        stack = started.enter_context(running(tmp_path, kafka, topic_prefix(), backends))
        stacks.append(stack)
        with restarted({name: lambda name=name: stack.services[name] for name in WORKERS}) as deaths:  # type: ignore[misc]
            outcomes = asyncio.run(all_answered(stack, ""))
        assert_the_killer_alone_was_taken_out(stack, outcomes, deaths, FailureKind.WORKER_DIED)
        ran = doors[0].seen + doors[1].seen
        assert ran.pop(KILLER) == deaths.total()
        assert set(ran) == set(range(PROMPTS)) - {KILLER}
        assert max(ran.values()) <= 3, "a neighbour runs again twice at most"


def test_a_prompt_that_kills_its_engine_is_found_after_three_deaths(kafka: str, tmp_path: Path) -> None:
    with ExitStack() as started:
        engines = {
            f"engine-{n}": started.enter_context(
                EngineProcess("--token-ms", "20", log_path=tmp_path / f"engine-{n}.log")
            )
            for n in range(2)
        }
        backends = [Backend("main", engine.url, "vllm", SLOTS) for engine in engines.values()]
        stack = started.enter_context(running(tmp_path, kafka, topic_prefix(), backends))
        with restarted({name: lambda engine=engine: engine for name, engine in engines.items()}) as deaths:  # type: ignore[misc]
            outcomes = asyncio.run(all_answered(stack, "[[fault:die:2]]"))
        assert_the_killer_alone_was_taken_out(stack, outcomes, deaths, FailureKind.ENGINE_DIED)
