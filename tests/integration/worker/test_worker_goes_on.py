"""A worker that goes on with the text of a stopped attempt: the answer is that of an undisturbed run, with the dev engine."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import orjson
import pytest

from headrace.bus.memory import MemoryBus
from headrace.contracts.codec import decode
from headrace.contracts.commands import CancelReason
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Usage
from headrace.devkit.engine import FakeEngine
from headrace.devkit.engine.fault_plan import FaultPlan, Rule
from tests.integration.worker.stage import PARTITION, Stage, chat, staged
from tests.support.eventually import eventually_async

SLOW = timedelta(milliseconds=12)
LENGTH = 160
COMPLETION = orjson.dumps({"model": "fake", "prompt": "Once upon a time", "max_tokens": LENGTH})
BODIES = {"/v1/chat/completions": chat("A long tale", max_tokens=LENGTH), "/v1/completions": COMPLETION}
CASES = [
    (route, stream, kind) for kind in ("vllm", "llama.cpp") for route in BODIES for stream in (False, True)
]


@pytest.fixture
async def engine() -> AsyncIterator[FakeEngine]:
    async with FakeEngine(token_delay=SLOW) as engine:
        yield engine


async def stopped(
    stage: Stage, body: bytes, *, reason: CancelReason = CancelReason.PREEMPTED, **request: Any
) -> tuple[AttemptRecord, bytes]:
    """An attempt that is stopped after some tokens; what it leaves."""
    attempt = await stage.run(body, stoppable=True, **request)

    async def said_some() -> bool:
        held = {one.attempt: one for one in (await stage.reports())[-1].held}
        return attempt in held and held[attempt].tokens > 3

    await eventually_async(said_some, "some tokens")
    await stage.cancel(attempt, reason)
    return await stage.ended(attempt), await value_of(stage, attempt)


async def value_of(stage: Stage, attempt: AttemptId) -> bytes:
    found = [
        (decode(TopicKind.ATTEMPTS, each.header), each.value)
        for each in await stage.read(TopicKind.ATTEMPTS, PARTITION)
    ]
    (value,) = [value for record, value in found if record.attempt == attempt]
    return value or b""


def text_of(body: bytes) -> str:
    choice = orjson.loads(body)["choices"][0]
    return str(choice["message"]["content"] if "message" in choice else choice["text"])


def streaming(body: bytes) -> bytes:
    return orjson.dumps({**orjson.loads(body), "stream": True, "stream_options": {"include_usage": True}})


@pytest.mark.parametrize(("route", "stream", "kind"), CASES)
async def test_a_stopped_answer_is_gone_on_with_to_the_text_of_an_undisturbed_one(
    engine: FakeEngine, route: str, stream: bool, kind: str
) -> None:
    body = streaming(BODIES[route]) if stream else BODIES[route]
    asked: dict[str, Any] = {"route": route, "stream": stream, "sends_usage": stream}
    async with staged(MemoryBus(), engine.url, backend_kind=kind) as stage:
        whole, undisturbed = await stage.result(await stage.run(body, **asked))
        record, text = await stopped(stage, body, **asked)
        assert (record.verdict, record.text and record.text.attempt) == (Verdict.RETRY_AT, record.attempt)
        assert record.text is not None
        assert text_of(undisturbed).startswith(text.decode())
        assert 3 < record.text.tokens == record.usage.completion_tokens < LENGTH
        again = await stage.run(body, text=record.text, kept=text, **asked)
        result, answer = await stage.result(again)
        last = await stage.ended(again)
        chunks = [pair for each in (record.attempt, again) for pair in await stage.chunks(each)]
    assert text_of(answer) == text_of(undisturbed)
    told, first = orjson.loads(answer), orjson.loads(undisturbed)
    assert told["choices"][0]["finish_reason"] == first["choices"][0]["finish_reason"] == "length"
    assert told["usage"]["completion_tokens"] == result.usage.completion_tokens == LENGTH
    assert told["usage"]["prompt_tokens"] == result.usage.prompt_tokens == whole.usage.prompt_tokens
    assert last.before + last.usage.completion_tokens == LENGTH, "each attempt is booked with what it spent"
    assert last.usage.prompt_tokens == whole.usage.prompt_tokens + last.before
    if stream:
        assert shown(chunks) == text_of(undisturbed)
        assert b'"completion_tokens":%d' % LENGTH in chunks[-1][1], "nor is a caller told of the parts"
        later = [chunk for chunk, _ in chunks if chunk.attempt == again]
        assert (later[0].number, later[0].after, later[0].since) == (
            1,
            record.attempt,
            record.text.characters,
        )
        assert later[-1].characters == len(text_of(undisturbed))


def shown(chunks: list[tuple[Any, bytes]]) -> str:
    lines = [line[6:] for _, raw in chunks for line in raw.splitlines() if line.startswith(b"data: {")]
    choices = [choice for line in lines for choice in orjson.loads(line)["choices"]]
    return "".join(choice.get("text") or choice.get("delta", {}).get("content") or "" for choice in choices)


async def test_an_answer_that_is_stopped_again_and_again_comes_to_the_same_text(engine: FakeEngine) -> None:
    body, spent = BODIES["/v1/chat/completions"], list[Usage]()
    async with staged(MemoryBus(), engine.url) as stage:
        _, undisturbed = await stage.result(await stage.run(body))
        more: dict[str, Any] = {}
        for _ in range(2):
            record, text = await stopped(stage, body, **more)
            spent.append(record.usage)
            assert record.text is not None
            assert record.text.tokens == sum(usage.completion_tokens for usage in spent)
            more = {"text": record.text, "kept": text}
        _, answer = await stage.result(await stage.run(body, **more))
    assert text_of(answer) == text_of(undisturbed)


async def test_a_continued_answer_that_is_cancelled_keeps_all_of_its_text(engine: FakeEngine) -> None:
    body = BODIES["/v1/chat/completions"]
    async with staged(MemoryBus(), engine.url) as stage:
        record, text = await stopped(stage, body)
        again = await stage.run(body, text=record.text, kept=text)
        await stage.running(again)
        await stage.cancel(again)
        result, answer = await stage.result(again)
    assert (result.status, result.partial) == (Status.CANCELLED, True)
    assert text_of(answer).startswith(text.decode())


@pytest.mark.parametrize(
    ("more", "kept"),
    [({"text": None}, b""), ({}, b"another text"), ({}, b""), ({"payload_seed": 7}, None)],
    ids=["no text", "not the text that it says", "the text is lost", "a seed promises more"],
)
async def test_whatever_can_not_be_gone_on_with_begins_anew(
    engine: FakeEngine, more: dict[str, Any], kept: bytes | None
) -> None:
    body = BODIES["/v1/chat/completions"]
    async with staged(MemoryBus(), engine.url) as stage:
        record, text = await stopped(stage, body)
        if seed := more.pop("payload_seed", None):
            body = orjson.dumps({**orjson.loads(body), "seed": seed})
        _, undisturbed = await stage.result(await stage.run(body))
        again = await stage.run(body, **{"text": record.text, **more}, kept=text if kept is None else kept)
        _, answer = await stage.result(again)
        assert (await stage.ended(again)).before == 0
    assert text_of(answer) == text_of(undisturbed)


async def test_a_backend_that_will_not_go_on_is_asked_for_all_in_the_same_attempt(engine: FakeEngine) -> None:
    """vLLM refuses where its chat template doesn't end with the text."""
    body = streaming(BODIES["/v1/chat/completions"])
    async with staged(MemoryBus(), engine.url) as stage:
        _, undisturbed = await stage.result(await stage.run(body, stream=True))
        record, text = await stopped(stage, body, stream=True)
        engine.core.set_plan(FaultPlan([Rule("400", text="continue_final_message")]))
        again = await stage.run(body, text=record.text, kept=text, stream=True)
        result, answer = await stage.result(again)
        chunks = await stage.chunks(again)
    assert text_of(answer) == text_of(undisturbed)
    assert result.usage.completion_tokens == LENGTH
    assert (chunks[0][0].number, chunks[0][0].after) == (0, None), "readers are told to begin anew"


async def test_with_resume_off_nothing_is_kept_and_plain_calls_are_plain(engine: FakeEngine) -> None:
    body = BODIES["/v1/chat/completions"]
    async with staged(MemoryBus(), engine.url, resume=False) as stage:
        attempt = await stage.run(body, stoppable=True)
        await stage.running(attempt)
        await stage.cancel(attempt, CancelReason.PREEMPTED)
        record = await stage.ended(attempt)
    assert (record.verdict, record.text) == (Verdict.RETRY_AT, None)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.PREEMPTED
    assert engine.journal.exchanges[-1].request == body
