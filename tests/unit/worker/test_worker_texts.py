"""Which answers can be gone on with, how an engine is asked to, and how the parts make one answer."""

from datetime import timedelta
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import CancelReason
from headrace.contracts.failures import FailureKind
from headrace.contracts.kept_text import MAX_TEXT_BYTES
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.values import Usage
from headrace.inference_worker.assemble import Assembler
from headrace.inference_worker.decisions.can_it_go_on import CHAT, COMPLETIONS, can_it_go_on, what_to_keep
from headrace.inference_worker.decisions.how_to_call import BackendKind
from headrace.inference_worker.decisions.how_to_go_on import body_that_goes_on
from headrace.inference_worker.decisions.settle import StopReason
from headrace.inference_worker.outcome import Kept, Outcome
from headrace.inference_worker.protocol.holdings import Holdings, HoldingToken
from headrace.inference_worker.protocol.inputs import StopAsked, Work, Written
from headrace.inference_worker.protocol.outputs import SendAttempt
from headrace.inference_worker.said import Said, reported_of_whole, usage_of_whole
from headrace.inference_worker.timings import Timings
from tests.unit.worker.scripted_world import World, run_of

MESSAGES = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
CHAT_BODY: dict[str, Any] = {"model": "m", "messages": MESSAGES, "max_tokens": 9, "temperature": 0.7}
PROMPT_BODY: dict[str, Any] = {"model": "m", "prompt": "Once", "max_tokens": 9}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


def able(body: object, *, route: str = CHAT, kind: BackendKind = BackendKind.VLLM, **request: Any) -> bool:
    record = msgspec.structs.replace(
        run_of(1, boot="b").request, route=route, **{"plain_text": True, **request}
    )
    return can_it_go_on(record, kind, body if isinstance(body, bytes) else orjson.dumps(body))


def test_chats_and_completions_of_plain_text_can_be_gone_on_with() -> None:
    assert able(CHAT_BODY)
    assert able({"messages": MESSAGES}), "a chat without a cap ends where its context does"
    assert able(PROMPT_BODY, route=COMPLETIONS)
    assert able(PROMPT_BODY, route=COMPLETIONS, kind=BackendKind.OPENAI)
    assert able({**CHAT_BODY, "seed": 7, "temperature": 0}), "what is greedy is the same without a seed"
    assert able({**CHAT_BODY, "seed": None, "presence_penalty": 0})


@pytest.mark.parametrize(
    "more",
    [
        {"plain_text": False},
        {"choices": 2},
        {"route": "/v1/embeddings"},
        {"kind": BackendKind.OPENAI},
        {"body": {**CHAT_BODY, "seed": 7}},
        {"body": {**CHAT_BODY, "frequency_penalty": 0.5}},
        {"body": {**CHAT_BODY, "messages": [*MESSAGES, {"role": "assistant", "content": "Well,"}]}},
        {"body": {**CHAT_BODY, "messages": []}},
        {"body": b"[]"},
        {"body": b"{"},
        {"route": COMPLETIONS, "body": {"prompt": "no cap"}},
        {"route": COMPLETIONS, "body": {"prompt": ["two", "prompts"], "max_tokens": 9}},
        {"route": COMPLETIONS, "body": {"prompt": [1, 2], "max_tokens": 9}},
    ],
)
def test_whatever_promises_more_than_text_begins_anew(more: dict[str, Any]) -> None:
    assert not able(more.pop("body", CHAT_BODY), **more)


@given(TEXTS, st.integers(0, 20), st.integers(1, 20))
def test_the_rest_is_asked_for_and_nothing_else_of_the_body_changes(text: str, tokens: int, cap: int) -> None:
    for route, fields in ((CHAT, CHAT_BODY), (COMPLETIONS, PROMPT_BODY)):
        body = {**fields, "max_tokens": cap, "max_completion_tokens": None, "metadata": {"x": "[]"}}
        found = body_that_goes_on(orjson.dumps(body), route=route, text=text, tokens=tokens)
        assert (found is None) == (tokens >= cap)
        if found is None:
            continue
        asked = orjson.loads(found)
        assert asked.pop("max_tokens") == cap - tokens
        if route == CHAT:
            assert asked.pop("messages") == [*MESSAGES, {"role": "assistant", "content": text}]
            assert (asked.pop("continue_final_message"), asked.pop("add_generation_prompt")) == (True, False)
        else:
            assert asked.pop("prompt") == "Once" + text
        assert asked.items() <= body.items()


@given(TEXTS, st.sampled_from(["", " ", "\n\n", " \t"]))
def test_what_is_kept_is_the_text_or_nothing(text: str, space: str) -> None:
    def kept(said: str, route: str = COMPLETIONS) -> Kept | None:
        return what_to_keep(Said(said, 3), route)

    said = text + space
    broken = said.endswith("\ufffd")
    assert kept(said) == (None if broken else Kept(said.encode(), min(3, len(said.encode())), len(said)))
    trimmed = said.rstrip()
    of_chat = (
        Kept(trimmed.encode(), min(3, len(trimmed.encode())), len(trimmed))
        if trimmed and not trimmed.endswith("\ufffd")
        else None
    )
    assert kept(said, CHAT) == of_chat, "what a chat's template cuts off is said again"
    assert kept("<think>Hm." + said) is kept("") is kept(" ", CHAT) is None
    assert kept("é" * (MAX_TEXT_BYTES // 2)) is not None
    assert kept("é" * (MAX_TEXT_BYTES // 2) + "x") is None


def chunk(**delta: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


@pytest.mark.parametrize(
    "more", [{"reasoning": "Hm"}, {"tool_calls": [{"index": 0}]}, {"refusal": "No"}, {"audio": {"id": "x"}}]
)
def test_an_answer_that_is_more_than_text_is_not_gone_on_with(more: dict[str, Any]) -> None:
    assembler = Assembler()
    for each in (chunk(role="assistant", content=""), chunk(content="Good"), chunk(content=" day")):
        assembler.add(each)
    assert assembler.said == Said("Good day", 2)
    assembler.add(chunk(**more))
    assert assembler.said == Said()


def test_an_answer_that_has_ended_or_has_two_choices_is_not_gone_on_with() -> None:
    for last in ({"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {"content": "x"}}):
        assembler = Assembler()
        assembler.add(chunk(content="Good"))
        assembler.add({"choices": [last]})
        assert assembler.said == Said()


COUNTS = st.integers(0, 10**6)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_of_the_whole_each_token_is_told_once(prompt: int, cached: int, answer: int, before: int) -> None:
    own = Usage(prompt_tokens=prompt + before, cached_tokens=cached, completion_tokens=answer)
    whole = usage_of_whole(own, before)
    assert (whole.prompt_tokens, whole.completion_tokens) == (prompt, answer + before)
    assert whole.cached_tokens == min(cached, prompt)
    reported = {
        "prompt_tokens": prompt + before, "completion_tokens": answer, "total_tokens": prompt + before + answer,
        "prompt_tokens_details": {"cached_tokens": cached}, "x": None,
    }  # fmt: skip
    assert reported_of_whole(reported, before) == {
        "prompt_tokens": prompt, "completion_tokens": answer + before, "total_tokens": reported["total_tokens"],
        "prompt_tokens_details": {"cached_tokens": min(cached, prompt)}, "x": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "reported", [{}, {"prompt_tokens": None}, {"prompt_tokens": "x", "completion_tokens": 1}]
)
def test_odd_usage_is_left_alone(reported: dict[str, Any]) -> None:
    assert reported_of_whole(reported, 5) == reported


@pytest.mark.parametrize("reason", list(CancelReason))
def test_only_who_was_stopped_by_headrace_and_goes_on_later_leaves_a_text(reason: CancelReason) -> None:
    world = World().serve()
    attempt = world.run(1)
    world.turn(2)
    world.cancel(attempt, reason)
    world.turn()
    world.end(attempt, Outcome(aborted=True, kept=Kept(b"Good", 2, 4)))
    world.turn(8)
    (record,) = world.records(AttemptRecord)
    sent = [each for each in world.seen(SendAttempt) if isinstance(each, SendAttempt)]
    assert (record.text is not None) == (reason is CancelReason.PREEMPTED)
    assert sent[0].text == (b"Good" if record.text else b"")
    if record.text is not None:
        assert (record.text.attempt, record.text.size, record.text.characters) == (attempt, 4, 4)


def test_a_drain_whose_grace_is_over_leaves_the_texts_of_what_it_hands_back() -> None:
    world = World().serve()
    attempt = world.run(1)
    world.turn(2)
    world.give(StopAsked())
    world.pass_time(Timings().drain_grace + timedelta(seconds=1))
    assert world.aborted() == [attempt]
    world.end(attempt, Outcome(aborted=True, kept=Kept(b"Good", 2, 4)))
    world.turn(8)
    (record,) = world.records(AttemptRecord)
    assert record.failure is not None
    assert (record.failure.kind, record.text is not None) == (FailureKind.WORKER_DRAINED, True)


def test_a_text_that_is_too_much_for_its_record_is_left_and_the_attempt_is_handed_back() -> None:
    now = World().now
    holdings = Holdings(worker="w1", boot="b", timings=Timings())
    holding = holdings.take(Work(run_of(1, boot="b"), b"{}"))
    holding.stop = StopReason.PREEMPTED
    holdings.end(holding, Outcome(aborted=True, kept=Kept(b"Good", 2, 4)), now)
    (first,) = holdings.sends(now)
    assert isinstance(first, SendAttempt)
    assert (first.record.text is not None, first.text) == (True, b"Good")
    assert isinstance(first.token, HoldingToken)
    holdings.written(first.token, Written(first.token, acknowledged=False, too_large=True), now)
    (again,) = holdings.sends(now)
    assert isinstance(again, SendAttempt)
    assert (again.record.text, again.text, again.record.verdict) == (None, b"", Verdict.RETRY_AT)


def test_what_was_said_counts_though_the_engine_said_its_usage_before() -> None:
    assembler = Assembler()
    nothing_yet = {"prompt_tokens": 9, "completion_tokens": 0}
    assembler.add({"choices": [{"index": 0, "delta": {"role": "assistant"}}], "usage": nothing_yet})
    for word in ("Once", " upon"):
        assembler.add({"choices": [{"index": 0, "delta": {"content": word}}]})
    assert assembler.said == Said("Once upon", 2)
