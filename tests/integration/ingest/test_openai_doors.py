"""OpenAI's doors with the official client: waiting, streaming, mending, failing, hanging up."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

from headrace.contracts.control import CancelRequest
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Failure
from tests.support.eventually import eventually_async
from tests.support.ingest import CHAT, BreakableBus, Replica, chat_answer, running

FINISHED: dict[str, Any] = {"finish_reason": "stop"}


@pytest.fixture
async def client(replica: Replica) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{replica.url}/v1", api_key="key-atlas", max_retries=0) as client:
        yield client


def text_of(chunks: list[Any]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


async def stream(client: openai.AsyncOpenAI, seen: list[Any], **more: Any) -> None:
    async with await client.chat.completions.create(**CHAT, stream=True, **more) as answers:
        async for chunk in answers:
            seen.append(chunk)  # noqa: PERF401 a test looks at it meanwhile


async def waiting_request(replica: Replica) -> RequestRecord:
    return (await replica.other.request())[0]


async def test_a_waiting_answer_is_the_stored_body_byte_for_byte(replica: Replica) -> None:
    asking = asyncio.create_task(
        replica.session.post("/v1/chat/completions", json=CHAT, headers=replica.as_tenant())
    )
    record, received = await replica.other.request()
    assert msgspec.json.decode(received.value or b"") == CHAT
    assert (record.waits, record.stream, record.plain_text, record.tenant) == (True, False, True, "atlas")
    await replica.other.finish(record, chat_answer("Hi."))
    async with await asking as answer:
        assert (answer.status, await answer.read()) == (200, chat_answer("Hi."))
        assert answer.headers["x-request-id"] == record.id
        assert answer.headers["x-headrace-model"] == record.model


async def test_the_official_client_waits_and_its_time_out_is_the_deadline(
    replica: Replica, client: openai.AsyncOpenAI
) -> None:
    asking = asyncio.create_task(
        client.chat.completions.create(
            **CHAT, service_tier="priority", timeout=77.0, max_tokens=5, n=2, safety_identifier="ada"
        )
    )
    record = await waiting_request(replica)
    assert record.fairness_key is not None
    assert "ada" not in record.fairness_key, "it stands in the body alone, which may be sealed"
    assert (record.tier, record.max_tokens, record.choices) == ("interactive", 10, 2)
    assert record.finish_by_ms == record.accepted_ms + 77_000
    assert record.start_by_ms == record.accepted_ms + 30_000
    await replica.other.finish(record, chat_answer("Hi."))
    assert (await asking).choices[0].message.content == "Hi."


async def test_an_alias_is_replaced_and_every_other_byte_kept(replica: Replica) -> None:
    body = b'{ "x_vendor":  [1, {"model": "alias"}],\n "model":"alias", "prompt" : "a" }'
    asking = asyncio.create_task(
        replica.session.post("/v1/completions", data=body, headers=replica.as_tenant())
    )
    record, received = await replica.other.request()
    assert (record.model, record.route) == ("backend/name", "/v1/completions")
    assert received.value == body.replace(b'"model":"alias"', b'"model":"backend/name"')
    await replica.other.finish(record, b'{"choices":[]}')
    (await asking).release()


async def test_a_final_that_is_lost_or_too_large_is_read_from_sql(
    replica: Replica, client: openai.AsyncOpenAI
) -> None:
    for tell, inline in ((False, True), (True, False)):
        asking = asyncio.create_task(client.chat.completions.create(**CHAT))
        record, _ = await replica.other.request()
        await replica.other.finish(record, chat_answer("Kept."), tell=tell, inline=inline)
        assert (await asking).choices[0].message.content == "Kept."


async def test_a_stream_is_relayed_as_it_comes(replica: Replica, client: openai.AsyncOpenAI) -> None:
    seen: list[Any] = []
    streaming = asyncio.create_task(stream(client, seen))
    record = await waiting_request(replica)
    await replica.other.chunk(record, 0, "Good ", so_far=5)
    async with asyncio.timeout(5):
        while not seen:
            await asyncio.sleep(0.01)
    assert text_of(seen) == "Good "
    await replica.other.chunk(record, 1, "day.", so_far=9, **FINISHED)
    await replica.other.finish(record, chat_answer("Good day."))
    await streaming
    assert text_of(seen) == "Good day."
    assert len(seen) == 2


async def test_relayed_bytes_are_untouched_and_end_with_done(replica: Replica) -> None:
    asking = asyncio.create_task(
        replica.session.post(
            "/v1/chat/completions", json={**CHAT, "stream": True}, headers=replica.as_tenant()
        )
    )
    record = await waiting_request(replica)
    raw = [
        await replica.other.chunk(record, n, t, so_far=n + 1, **f)
        for n, (t, f) in enumerate([("a", {}), ("b", FINISHED)])
    ]
    await replica.other.finish(record, chat_answer("ab"))
    async with await asking as answer:
        assert await answer.read() == b"".join(raw) + b"data: [DONE]\n\n"
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-request-id"] == record.id


async def test_lost_chunks_are_mended_from_what_is_stored_with_usage(
    replica: Replica, client: openai.AsyncOpenAI
) -> None:
    seen: list[Any] = []
    streaming = asyncio.create_task(stream(client, seen, stream_options={"include_usage": True}))
    record = await waiting_request(replica)
    assert record.sends_usage
    await replica.other.chunk(record, 0, "Good ", so_far=5)
    await replica.other.chunk(record, 2, "morning.", so_far=16, **FINISHED)
    await replica.other.finish(record, chat_answer("Good morning."))
    await streaming
    assert text_of(seen) == "Good morning."
    assert seen[-2].choices[0].finish_reason == "stop"
    assert seen[-1].usage.total_tokens == 5


async def test_a_second_attempt_with_the_same_text_goes_unnoticed_and_another_text_is_an_error(
    replica: Replica, client: openai.AsyncOpenAI
) -> None:
    for told in ("Good day.", "Bad luck."):
        seen: list[Any] = []
        streaming = asyncio.create_task(stream(client, seen))
        record, _ = await replica.other.request()
        await replica.other.chunk(record, 0, "Good ", so_far=5)
        await replica.other.chunk(record, 0, told, so_far=9, attempt=AttemptId(1, 2), **FINISHED)
        await replica.other.finish(record, chat_answer(told), attempt=AttemptId(1, 2))
        if told.startswith("Good"):
            await streaming
            assert text_of(seen) == told
        else:
            with pytest.raises(openai.APIError, match="stored answer"):
                await streaming


async def test_a_backends_own_refusal_is_relayed_with_its_status(
    replica: Replica, client: openai.AsyncOpenAI
) -> None:
    body = b'{"error":{"message":"too long","type":"invalid_request_error","param":null,"code":"context"}}'
    failure = Failure(kind=FailureKind.CONTEXT_LENGTH_EXCEEDED, message="too long")
    for streamed in (False, True):
        asking = asyncio.create_task(client.chat.completions.create(**CHAT, stream=streamed))
        record, _ = await replica.other.request()
        await replica.other.finish(record, body, status=Status.FAILED, http_status=400, failure=failure)
        with pytest.raises(openai.BadRequestError) as refused:
            await asking
        assert refused.value.code == "context"


async def test_a_queue_timeout_is_a_504_that_no_client_repeats(replica: Replica) -> None:
    async with openai.AsyncOpenAI(base_url=f"{replica.url}/v1", api_key="key-atlas", max_retries=2) as client:
        asking = asyncio.create_task(client.chat.completions.create(**CHAT))
        record = await waiting_request(replica)
        failure = Failure(kind=FailureKind.QUEUE_TIMEOUT)
        await replica.other.finish(record, b"", status=Status.EXPIRED, http_status=504, failure=failure)
        with pytest.raises(openai.APIStatusError) as expired:
            await asking
    assert (expired.value.status_code, expired.value.code) == (504, "queue_timeout")
    assert expired.value.request_id == record.id
    assert len(await replica.other.all_requests()) == 1


async def test_a_failure_in_mid_stream_is_an_error_object(
    replica: Replica, client: openai.AsyncOpenAI
) -> None:
    seen: list[Any] = []
    streaming = asyncio.create_task(stream(client, seen))
    record = await waiting_request(replica)
    await replica.other.chunk(record, 0, "Good ", so_far=5)
    failure = Failure(kind=FailureKind.STREAM_BROKEN, message="The backend's answer broke off.")
    await replica.other.finish(
        record, chat_answer("Good "), status=Status.FAILED, http_status=502, failure=failure, partial=True
    )
    with pytest.raises(openai.APIError, match="broke off"):
        await streaming
    assert text_of(seen) == "Good "


async def test_a_caller_who_hangs_up_cancels_the_request(replica: Replica) -> None:
    for streamed in (False, True):
        asking = asyncio.create_task(
            replica.session.post(
                "/v1/chat/completions", json={**CHAT, "stream": streamed}, headers=replica.as_tenant()
            )
        )
        record, _ = await replica.other.request()
        asking.cancel()
        await asyncio.wait({asking})

        async def cancelled(request_id: str = record.id) -> bool:
            wanted = await replica.other.control()
            return any(isinstance(each, CancelRequest) and each.id == request_id for each in wanted)

        await eventually_async(cancelled, "the cancellation in the log")


async def test_models_are_those_of_the_policy(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["alias", "small"]
    assert (await client.models.retrieve("small")).owned_by == "headrace"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("large")


async def test_heartbeats_keep_a_long_wait_alive(tmp_path: Path) -> None:
    async with running(BreakableBus(), tmp_path, heartbeat_after=timedelta(milliseconds=50)) as replica:
        for streamed in (False, True):
            answer = await replica.session.post(
                "/v1/chat/completions", json={**CHAT, "stream": streamed}, headers=replica.as_tenant()
            )
            assert answer.status == 200
            record, _ = await replica.other.request()
            await replica.other.finish(record, chat_answer("At last."))
            body = await answer.read()
            if streamed:
                assert body.startswith(b": headrace queued\n\n")
                assert body.endswith(b"data: [DONE]\n\n")
            else:
                assert body.lstrip(b"\n") == chat_answer("At last.")


async def test_a_failure_after_a_heartbeat_never_looks_like_an_answer(tmp_path: Path) -> None:
    async with running(BreakableBus(), tmp_path, heartbeat_after=timedelta(milliseconds=50)) as replica:
        answer = await replica.session.post("/v1/chat/completions", json=CHAT, headers=replica.as_tenant())
        record = await waiting_request(replica)
        failure = Failure(kind=FailureKind.QUEUE_TIMEOUT)
        await replica.other.finish(record, b"", status=Status.EXPIRED, http_status=504, failure=failure)
        with pytest.raises(Exception, match="payload"):
            await answer.read()
