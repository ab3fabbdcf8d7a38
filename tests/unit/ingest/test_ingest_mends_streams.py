"""What a reader was sent and what is added at the end say exactly what is stored, or the reader is told otherwise."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Chunk
from headrace.contracts.values import Payload
from headrace.ingest.decisions.follow_chunks import ChunkOrder, Shown
from headrace.ingest.decisions.mend_stream import mend_stream
from headrace.ingest.decisions.native_events import EventId, NativeEvents, event_id_from
from headrace.ingest.decisions.read_submission import CHAT, COMPLETIONS
from headrace.ingest.decisions.sent_text import SentText
from headrace.ingest.decisions.what_to_answer import Ended


def event(**document: object) -> bytes:
    return b"data: " + msgspec.json.encode({"id": "c", "created": 1, "model": "m", **document}) + b"\n\n"


def delta(text: str, index: int = 0, finish: str | None = None) -> bytes:
    return event(choices=[{"index": index, "delta": {"content": text}, "finish_reason": finish}])


def stored(*texts: str, **message: object) -> bytes:
    choices = [
        {"index": i, "message": {"role": "assistant", "content": t, **message}, "finish_reason": "stop"}
        for i, t in enumerate(texts)
    ]
    return msgspec.json.encode(
        {"id": "c", "object": "chat.completion", "choices": choices, "usage": {"total_tokens": 3}}
    )


def mended(sent: SentText, body: bytes, *, usage: bool = False, whole: bool = True) -> list[bytes] | None:
    return mend_stream(sent, body, route=CHAT, sends_usage=usage, whole=whole)


@given(st.lists(st.text(max_size=8), max_size=6), st.integers(0, 6), st.booleans())
def test_any_beginning_is_completed_to_the_stored_text(
    pieces: list[str], lost_from: int, usage: bool
) -> None:
    sent = SentText()
    for piece in pieces[:lost_from]:
        sent.feed(delta(piece))
    events = mended(sent, stored("".join(pieces)), usage=usage)
    assert events is not None
    for missing in events:
        sent.feed(missing)
    assert (sent.text(0, "content"), sent.finished, sent.usage) == ("".join(pieces), {0}, usage)
    assert mended(sent, stored("".join(pieces)), usage=usage) == []


def test_a_text_that_differs_cannot_be_mended() -> None:
    sent = SentText()
    sent.feed(delta("Good"))
    assert mended(sent, stored("Bad")) is None
    assert mended(sent, b"not json") is None
    assert mended(sent, b'{"error":{}}') is None


def test_choices_are_completed_each_on_its_own() -> None:
    sent = SentText()
    sent.feed(delta("ab", 1) + delta("x", 0, "stop"))
    events = mended(sent, stored("x", "abc"))
    assert events is not None
    assert [msgspec.json.decode(e[6:])["choices"][0]["index"] for e in events] == [1, 1]


def test_tool_calls_that_were_never_sent_are_sent_whole_and_half_sent_ones_are_not_guessed() -> None:
    calls = [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    body = stored("", tool_calls=calls)
    events = mended(SentText(), body)
    assert events is not None
    assert msgspec.json.decode(events[0][6:])["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    half = SentText()
    half.feed(event(choices=[{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "t"}]}}]))
    assert mended(half, body, whole=False) is None


def test_a_completion_is_mended_in_its_own_shape() -> None:
    body = msgspec.json.encode(
        {"id": "c", "choices": [{"index": 0, "text": "abc", "finish_reason": "length"}]}
    )
    sent = SentText()
    sent.feed(event(choices=[{"index": 0, "text": "a", "finish_reason": None}]))
    events = mend_stream(sent, body, route=COMPLETIONS, sends_usage=False, whole=True)
    assert events is not None
    choices = [msgspec.json.decode(e[6:])["choices"][0] for e in events]
    assert [(c["text"], c["finish_reason"]) for c in choices] == [("bc", None), ("", "length")]


def chunk(number: int, sequence: int = 1) -> Chunk:
    return Chunk(
        id="r", attempt=AttemptId(1, sequence), number=number, characters=number + 1, payload=Payload(size=0)
    )


def test_chunks_are_shown_in_order_and_a_gap_ends_the_showing() -> None:
    order = ChunkOrder()
    shown = [order.take(chunk(number)) for number in (0, 1, 1, 3, 4)]
    assert shown == [Shown.RELAY, Shown.RELAY, Shown.SKIP, Shown.SKIP, Shown.SKIP]
    assert not order.is_whole(AttemptId(1, 1))


def test_a_newer_attempt_starts_again_and_an_older_one_is_ignored() -> None:
    order = ChunkOrder()
    shown = [order.take(each) for each in (chunk(0, 2), chunk(1, 1), chunk(0, 3), chunk(1, 3))]
    assert shown == [Shown.RELAY, Shown.SKIP, Shown.RESTART, Shown.RELAY]
    assert order.is_whole(AttemptId(1, 3))
    assert not order.is_whole(AttemptId(1, 2))


def test_an_attempt_that_showed_nothing_hides_no_restart() -> None:
    order = ChunkOrder()
    assert order.take(chunk(0)) is Shown.RELAY
    assert order.take(chunk(1, sequence=2)) is Shown.SKIP
    assert order.take(chunk(0, sequence=3)) is Shown.RESTART


def test_a_resumed_reader_goes_on_behind_its_last_chunk() -> None:
    order = ChunkOrder()
    order.resume(AttemptId(1, 1), 4, 50)
    assert [order.take(chunk(4)), order.take(chunk(5))] == [Shown.SKIP, Shown.RELAY]


def goes_on(sequence: int, after: int, since: int, number: int = 1) -> Chunk:
    """The first chunk of an attempt that goes on from another's text; each chunk brings a character."""
    return msgspec.structs.replace(
        chunk(number, sequence), characters=since + number, after=AttemptId(1, after), since=since
    )


def test_who_was_shown_what_an_attempt_goes_on_from_reads_on_without_a_restart() -> None:
    order = ChunkOrder()
    shown = [order.take(each) for each in (chunk(0), chunk(1), goes_on(2, 1, 2), goes_on(3, 2, 3))]
    assert shown == [Shown.RELAY] * 4
    assert order.is_whole(AttemptId(1, 3))
    order = ChunkOrder()
    order.resume(AttemptId(1, 1), 4, 5)
    assert order.take(goes_on(2, 1, 5)) is Shown.RELAY


@pytest.mark.parametrize(
    "first",
    [
        (),
        (chunk(0),),
        (chunk(0), chunk(1), chunk(2)),
        (chunk(0), chunk(2)),
        (chunk(0), chunk(0, 2), chunk(1, 2)),
    ],
    ids=["nothing", "less", "more", "a gap", "as much of another attempt"],
)
def test_who_was_shown_anything_else_gets_the_rest_from_what_is_stored(first: tuple[Chunk, ...]) -> None:
    order = ChunkOrder()
    for each in first:
        order.take(each)
    assert [order.take(each) for each in (goes_on(3, 1, 2), goes_on(3, 1, 2, 2))] == [Shown.SKIP] * 2
    assert not order.is_whole(AttemptId(1, 3))


@pytest.mark.parametrize(
    "head", [{"created": 1.5}, {"id": 7}, {"model": None}, {"usage": []}, {"object": 3}, {"created": "now"}]
)
def test_an_odd_head_is_sent_once_all_the_same(head: dict[str, object]) -> None:
    sent = SentText()
    sent.feed(
        event(**{**head, "choices": [{"index": 0, "delta": {"content": "Good"}, "finish_reason": "stop"}]})
    )
    body = msgspec.json.encode({**msgspec.json.decode(stored("Good")), **head})
    assert mended(sent, body) == []


def test_an_event_on_several_lines_is_sent_once() -> None:
    lines = msgspec.json.format(delta("Good", finish="stop")[6:].strip(), indent=1).splitlines()
    sent = SentText()
    sent.feed(b"".join(b"data: " + line + b"\n" for line in lines) + b"\n")
    assert mended(sent, stored("Good")) == []


def test_a_field_that_is_repeated_in_each_chunk_is_no_difference_in_a_whole_stream() -> None:
    sent = SentText()
    for text, finish in (("Go", None), ("od", "stop")):
        pieces = {"content": text, "provider": "acme"}
        sent.feed(event(choices=[{"index": 0, "delta": pieces, "finish_reason": finish}]))
    assert mended(sent, stored("Good", provider="acme")) == []
    assert mended(sent, stored("Good", provider="acme"), whole=False) is None


def told(events: NativeEvents, ended: Ended) -> list[tuple[str, str]]:
    """The restarts and texts of a stream's end."""
    frames = b"".join(events.on_end(ended, b"{}")).decode().split("\n\n")
    kinds = [(frame.split("\n")[0], frame.rsplit("data: ", 1)[-1]) for frame in frames if frame]
    return [(kind.removeprefix("event: "), data) for kind, data in kinds if kind != "event: end"]


@pytest.mark.parametrize("live", [False, True])
def test_who_resumes_in_another_attempt_is_told_to_forget_the_text_of_the_first(live: bool) -> None:
    first = NativeEvents(EventId(0), resumed=False)
    first.on_chunk(msgspec.structs.replace(chunk(0, 1), characters=3), delta("Bad"), 0, 5)
    resumed = NativeEvents(first.at, resumed=True)
    frames = b""
    if live:
        frames = b"".join(
            resumed.on_chunk(msgspec.structs.replace(chunk(0, 2), characters=4), delta("Good"), 0, 9)
        )
    ended = Ended("r", Status.SUCCEEDED, 200, AttemptId(1, 2), stored("Good day"))
    rest = told(resumed, ended)
    assert (b"restart" in frames) is live
    assert [kind for kind, _ in rest] == (["text"] if live else ["restart", "text"])
    assert msgspec.json.decode(rest[-1][1])["text"] == (" day" if live else "Good day")


def test_an_events_id_is_read_as_it_was_written() -> None:
    at = EventId(3, 2**50, 7, 2**40, 12, 3456)
    assert event_id_from(str(at)) == at


@pytest.mark.parametrize("body", [b"", b'{"error": "no"}'])
def test_who_was_told_text_that_came_to_nothing_is_told_to_forget_it(body: bytes) -> None:
    ended = Ended("r", Status.CANCELLED, 499, AttemptId(1, 2), body)
    first = NativeEvents(EventId(0), resumed=False)
    assert told(first, ended) == []
    first.on_chunk(msgspec.structs.replace(chunk(0, 1), characters=3), delta("Bad"), 0, 5)
    resumed = NativeEvents(first.at, resumed=True)
    assert [kind for kind, _ in told(first, ended)] == ["restart"]
    assert [kind for kind, _ in told(resumed, ended)] == ["restart"]
