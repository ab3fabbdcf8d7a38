"""Bytes in, bytes out: what the engine was sent and what a caller got, compared with the engine's own journal."""

import pytest

from headrace.cli.stack.processes import Stack
from tests.e2e.conftest import Journal
from tests.support.callers import Caller, chat_body, text_of
from tests.support.eventually import eventually
from tests.support.stacks import records_in, rows_of

pytestmark = pytest.mark.kafka


def caller(stack: Stack, tenant: str = "atlas") -> Caller:
    return Caller(stack.url, stack.keys[tenant])


async def test_a_plain_waiting_answer_is_byte_equal_to_the_engines(stack: Stack, journal: Journal) -> None:
    async with caller(stack) as atlas:
        outcome = await atlas.wait_on_openai(
            chat_body("plain one", model="fake", max_tokens=6), tier="standard"
        )
    [call] = journal.with_text("plain one")
    assert outcome.http_status == 200
    assert outcome.body == call.response


async def test_the_engine_gets_the_callers_bytes(stack: Stack, journal: Journal) -> None:
    raw = b'{ "model" : "fake",\n "messages":[{"role":"user","content":"odd  spacing \\u00e9"}], "x_vendor": [1, 2.50] }'
    async with caller(stack) as atlas:
        headers = {"content-type": "application/json"}
        async with atlas.session.post("/v1/chat/completions", data=raw, headers=headers) as answer:
            assert answer.status == 200
            await answer.read()
    [call] = journal.with_text("odd  spacing")
    assert call.request == raw


async def test_an_alias_changes_the_models_name_and_nothing_else(stack: Stack, journal: Journal) -> None:
    raw = b'{"messages":[{"role":"user","content":"by alias"}],"model":"small","top_p":0.90}'
    async with caller(stack) as atlas:
        headers = {"content-type": "application/json"}
        async with atlas.session.post("/v1/chat/completions", data=raw, headers=headers) as answer:
            assert answer.status == 200
            await answer.read()
    [call] = journal.with_text("by alias")
    assert call.request == raw.replace(b'"small"', b'"fake"')


async def test_all_doors_bring_the_same_text(stack: Stack) -> None:
    body = chat_body("through every door", model="fake", max_tokens=9)
    async with caller(stack, "birch") as birch:
        outcomes = [
            await birch.wait_on_openai(body, tier="interactive"),
            await birch.stream_on_openai(body, tier="interactive"),
            await birch.wait_natively(body, tier="batch"),
            await birch.poll(body, tier="batch"),
        ]
    assert len({outcome.text for outcome in outcomes}) == 1
    assert outcomes[0].text


async def test_a_finished_request_is_one_record_one_row_and_one_event(stack: Stack) -> None:
    async with caller(stack, "cedar") as cedar:
        outcome = await cedar.poll(chat_body("counted once", model="fake", max_tokens=3), tier="standard")
    assert text_of(outcome.body) == outcome.text
    assert [row[3] for row in rows_of(stack) if row[0] == outcome.id] == ["succeeded"]
    assert len([one for one in records_in(stack, "results") if outcome.id.encode() in one]) == 1
    eventually(
        lambda: len([one for one in records_in(stack, "attempts.main") if outcome.id.encode() in one]) == 1,
        "the attempt is recorded, after the result",
    )


async def test_a_retried_failure_ends_well_and_was_told_as_an_attempt(stack: Stack, journal: Journal) -> None:
    body = chat_body("fails once [[fault:500*1]]", model="fake", max_tokens=3)
    async with caller(stack) as atlas:
        request_id = await atlas.submit(body, tier="interactive")
        outcome = await atlas.ended(request_id)
        document = await atlas.status(request_id)
    assert outcome.http_status == 200
    assert document["attempts"] == 2
    assert [call.status for call in journal.with_text("fails once")] == [500, 200]


async def test_the_callers_trace_reaches_the_backend(stack: Stack, journal: Journal) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    body = chat_body("traced", model="fake", max_tokens=2)
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    async with (
        caller(stack) as atlas,
        atlas.session.post("/v1/chat/completions", json=body, headers=headers) as response,
    ):
        assert await response.read()
    [call] = journal.with_text("traced")
    assert trace in dict(call.headers)["traceparent"]


async def test_a_cancelled_running_request_leaves_the_engine(stack: Stack, journal: Journal) -> None:
    body = chat_body("cancel me [[fault:slow:200]]", model="fake", max_tokens=100)
    async with caller(stack) as atlas:
        request_id = await atlas.submit(body, tier="interactive")
        async with atlas.session.get(f"/v1/requests/{request_id}/events") as events:
            assert events.status == 200
            assert await atlas.cancel(request_id) == 202
            await events.read()
        assert (await atlas.status(request_id))["status"] == "cancelled"
    eventually(
        lambda: [c for c in journal.with_text("cancel me") if c.ended == "aborted"], "the engine is told"
    )


async def test_a_caller_who_leaves_cancels_what_it_waited_for(stack: Stack, journal: Journal) -> None:
    body = chat_body("walk away [[fault:slow:200]]", model="fake", max_tokens=100, stream=True)
    async with caller(stack) as atlas, atlas.session.post("/v1/chat/completions", json=body) as response:
        assert await response.content.readline()
    eventually(
        lambda: [c for c in journal.with_text("walk away") if c.ended == "aborted"], "the engine is told"
    )
