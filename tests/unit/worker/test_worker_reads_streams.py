from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.inference_worker.assemble import Assembler
from headrace.inference_worker.decisions.is_done import is_broken_off, is_done
from headrace.inference_worker.sse import Event, EventTooLargeError, SseParser

LINES = st.sampled_from(
    [
        b'data: {"a":"\xc3\xa9\xf0\x9f\x99\x82"}',
        b"data:x",
        b"data",
        b"data: ",
        b": keep-alive",
        b"event: e",
        b"id: 7",
        b"",
        b"",
        b"\xff",
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS).map(b"".join), max_size=25).map(b"".join)


def events_of(*pieces: bytes) -> list[Event]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@given(STREAMS, st.lists(st.integers(0, 400), max_size=12))
def test_however_the_bytes_are_cut_the_events_are_the_same(stream: bytes, cuts: list[int]) -> None:
    at = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert events_of(*(stream[a:b] for a, b in pairwise(at))) == events_of(stream)
    assert events_of(*(stream[i : i + 1] for i in range(len(stream)))) == events_of(stream)


@given(STREAMS)
def test_what_is_relayed_reads_as_the_same_data(stream: bytes) -> None:
    events = events_of(stream)
    assert [e.data for e in events_of(b"".join(e.raw for e in events))] == [e.data for e in events]


def test_comments_are_skipped_lines_are_joined_and_an_unfinished_event_never_happened() -> None:
    found = events_of(b"\xef\xbb\xbfdata: a\n: ping\ndata:b\n\n: only a comment\n\nevent: x\n\ndata: half\n")
    assert found == [Event(b"a\nb", b"data: a\ndata:b\n\n")]


def test_an_event_that_never_ends_is_given_up() -> None:
    with pytest.raises(EventTooLargeError):
        SseParser(most_bytes=100).feed(b"data: aaaaaaaaa\n" * 30)
    with pytest.raises(EventTooLargeError):
        SseParser(most_bytes=100).feed(b"data: " + b"a" * 200)


def chunk(*choices: dict[str, object], **more: object) -> dict[str, object]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": list(choices), **more}


def delta(index: int = 0, finish: str | None = None, **said: object) -> dict[str, object]:
    return {"index": index, "delta": said, "logprobs": None, "finish_reason": finish}


def assembled(*chunks: dict[str, object]) -> tuple[Assembler, Any]:
    assembler = Assembler()
    for one in chunks:
        assembler.add(one)
    return assembler, orjson.loads(assembler.body())


def test_a_chat_is_assembled_into_the_plain_answer() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    assembler, whole = assembled(
        chunk(delta(role="assistant", content=None)),
        chunk(delta(content="Hé")),
        chunk(delta(content="llo")),
        chunk(delta(finish="stop")),
        chunk(usage=usage, timings={"x": 1}),
    )
    message = {"role": "assistant", "content": "Héllo"}
    assert whole == {
        "id": "c1", "object": "chat.completion", "created": 1, "model": "m", "usage": usage, "timings": {"x": 1},
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
    }  # fmt: skip
    assert (assembler.characters, assembler.tokens) == (5, 2)
    assert assembler.usage is not None
    assert (assembler.usage.cached_tokens, assembler.usage.completion_tokens) == (1, 2)


def test_tool_calls_reasoning_and_several_choices_grow_each_in_its_place() -> None:
    call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a'}}
    _, whole = assembled(
        chunk(delta(role="assistant", content="")),
        chunk(delta(1, content="b"), delta(0, tool_calls=[call])),
        chunk(delta(0, tool_calls=[{"index": 0, "function": {"arguments": '":1}'}}])),
        chunk(delta(1, content="c", finish="stop")),
        chunk(delta(0, reasoning="hm"), delta(0, reasoning="m", finish="tool_calls")),
    )
    first, second = whole["choices"]
    function = {"name": "f", "arguments": '{"a":1}'}
    assert first["message"]["tool_calls"] == [{"id": "t1", "type": "function", "function": function}]
    assert (first["message"]["reasoning"], first["finish_reason"]) == ("hmm", "tool_calls")
    assert (second["message"]["content"], second["finish_reason"]) == ("bc", "stop")


def test_a_completion_keeps_its_shape_and_its_log_probabilities() -> None:
    head = {"id": "c", "object": "text_completion", "created": 1, "model": "m"}
    one = {"index": 0, "text": "a", "logprobs": {"tokens": ["a"]}, "finish_reason": None}
    two = {"index": 0, "text": "b", "logprobs": {"tokens": ["b"]}, "finish_reason": "length"}
    assembler, whole = assembled({**head, "choices": [one]}, {**head, "choices": [two]})
    choice = {"index": 0, "text": "ab", "logprobs": {"tokens": ["a", "b"]}, "finish_reason": "length"}
    assert whole == {**head, "choices": [choice]}
    assert assembler.finish_reasons == {0: "length"}


@pytest.mark.parametrize("bad", [{}, {"choices": 1}, {"choices": [1]}, {"choices": [{"index": "x"}]}])
def test_what_is_no_chunk_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"chunk|choice"):
        Assembler().add(bad)


def test_a_lying_usage_can_not_make_an_unreadable_record() -> None:
    assembler, _ = assembled(chunk(usage={"prompt_tokens": -1, "completion_tokens": 2**60, "x": True}))
    assert assembler.usage is not None
    assert (assembler.usage.prompt_tokens, assembler.usage.completion_tokens) == (0, 0)


@pytest.mark.parametrize(
    ("reasons", "expected", "done_seen", "done"),
    [
        ({}, 1, True, False),
        ({0: "stop"}, 1, False, True),
        ({0: "length"}, 1, True, True),
        ({0: None}, 1, True, False),
        ({0: "stop", 1: None}, 2, True, False),
        ({0: "stop"}, 2, False, False),
        ({0: "stop"}, 2, True, True),
        ({0: "abort"}, 1, True, False),
    ],
)
def test_a_stream_is_done_when_every_choice_has_ended_and_never_by_done_alone(
    reasons: dict[int, str | None], expected: int, done_seen: bool, done: bool
) -> None:
    assert is_done(reasons, expected=expected, done_seen=done_seen) is done
    assert is_broken_off([{"finish_reason": reasons.get(0)}]) is (reasons.get(0) == "abort")
