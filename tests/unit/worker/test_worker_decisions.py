from datetime import UTC, datetime
from email.utils import format_datetime

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.clock import Now
from headrace.contracts.failures import FAILURES, FailureKind
from headrace.contracts.reports import Gone, Report, WorkerRecord
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Payload
from headrace.inference_worker.decisions.classify_failure import (
    BackendSays,
    Broken,
    classify_answer,
    classify_broken,
    classify_event,
    is_relayed,
    read_error,
    says_of,
)
from headrace.inference_worker.decisions.how_to_call import BackendKind, CallPlan, body_for, how_to_call
from headrace.inference_worker.decisions.is_name_taken import others_of
from headrace.inference_worker.decisions.pick_lane import pick_lane
from headrace.inference_worker.decisions.when_to_retry import read_retry_after
from headrace.inference_worker.json_body import NotAnObjectError, member_of, with_member, with_usage
from tests.unit.worker.scripted_world import run_of

K = FailureKind
NOW = Now(wall_ms=1_700_000_000_000, boot_ms=5)


REQUEST = RequestRecord(
    id="i", tenant="t", pool="p", tier="batch", partition=0, model="m", route="/r", accepted_ms=1_700_000_000_000,
    payload=Payload(size=2), gateway=0,
)  # fmt: skip


def openai(message: str = "", code: object = None, kind: str | None = None) -> bytes:
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


VLLM_TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, your prompt contains 5031 input tokens"
)
WIRE = [
    (400, openai(VLLM_TOO_LONG, 400, "BadRequestError"), K.CONTEXT_LENGTH_EXCEEDED),
    (400, openai("too many", 400, "exceed_context_size_error"), K.CONTEXT_LENGTH_EXCEEDED),
    (400, openai("too long", "context_length_exceeded"), K.CONTEXT_LENGTH_EXCEEDED),
    (422, b'{"error":"`inputs` must have less than 512 tokens","error_type":"validation"}', K.CONTEXT_LENGTH_EXCEEDED),
    (400, openai("1 validation error", 400), K.INVALID_REQUEST),
    (413, b"", K.INVALID_REQUEST),
    (422, openai("unreachable media"), K.INVALID_REQUEST),
    (401, b'{"error":"Unauthorized"}', K.BACKEND_REFUSES_US),
    (403, b"", K.BACKEND_REFUSES_US),
    (404, openai("The model `x` does not exist.", 404), K.MODEL_NOT_FOUND),
    (408, b"", K.BACKEND_TIMEOUT),
    (424, b'{"error":"x","error_type":"generation"}', K.BACKEND_ERROR),
    (425, b"", K.BACKEND_UNAVAILABLE),
    (429, openai("slow down", "rate_limit_exceeded"), K.BACKEND_OVERLOADED),
    (429, openai("pay", "insufficient_quota", "insufficient_quota"), K.QUOTA_EXHAUSTED),
    (429, b'{"error":"Model is overloaded","error_type":"overloaded"}', K.BACKEND_OVERLOADED),
    (429, openai("no money", "credit_balance_exhausted"), K.QUOTA_EXHAUSTED),
    (500, openai("Internal server error", 500, "InternalServerError"), K.BACKEND_ERROR),
    (500, openai("EngineCore encountered an issue. See stack trace.", 500), K.ENGINE_DIED),
    (500, openai("x", 500, "EngineDeadError"), K.ENGINE_DIED),
    (501, openai("not here", 501, "not_supported_error"), K.NOT_IMPLEMENTED),
    (502, b"<html>Bad Gateway</html>", K.BACKEND_ERROR),
    (503, openai("Loading model", 503, "unavailable_error"), K.BACKEND_UNAVAILABLE),
    (503, openai("The engine is currently busy", 503, "Service Unavailable"), K.BACKEND_OVERLOADED),
    (504, b"", K.BACKEND_TIMEOUT),
    (529, openai("overloaded", "overloaded_error"), K.BACKEND_OVERLOADED),
    (307, b"", K.BACKEND_ERROR),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind"), WIRE)
def test_status_and_code_together_name_the_failure(status: int, body: bytes, kind: FailureKind) -> None:
    assert classify_answer(status, read_error(body)) is kind


def test_what_the_caller_did_wrong_is_relayed_and_final_and_what_may_pass_is_retried() -> None:
    for status in (400, 404, 413, 422, 501):
        kind = classify_answer(status, BackendSays())
        assert is_relayed(kind)
        assert not FAILURES[kind].retryable
    for status in (408, 425, 429, 500, 502, 503, 504, 529):
        assert FAILURES[classify_answer(status, BackendSays())].retryable


@given(st.integers(300, 599), st.binary(max_size=60))
def test_any_answer_has_a_kind_and_a_message(status: int, body: bytes) -> None:
    assert classify_answer(status, read_error(body)) in FAILURES


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
MEMBERS = st.sampled_from(["error", "message", "code", "type", "detail"])


@given(st.recursive(LEAVES, lambda inner: st.dictionaries(MEMBERS, inner)))
def test_any_json_error_object_is_read(found: object) -> None:
    assert classify_event(says_of(found)) in FAILURES


def test_an_error_event_is_judged_by_its_code_and_tgis_constant_422_is_not_believed() -> None:
    assert (
        classify_event(says_of({"error": {"message": "x", "code": 400, "type": "BadRequestError"}}))
        is K.INVALID_REQUEST
    )
    assert classify_event(says_of({"error": {"message": "x", "http_status_code": 422}})) is K.BACKEND_ERROR


def test_a_broken_connection_accuses_the_request_only_when_the_engine_is_gone() -> None:
    assert classify_broken(Broken.CUT_OFF, backend_alive=True) is K.STREAM_BROKEN
    assert classify_broken(Broken.CUT_OFF, backend_alive=False) is K.ENGINE_DIED
    assert classify_broken(Broken.NOT_CONNECTED, backend_alive=False) is K.BACKEND_UNAVAILABLE
    assert all(classify_broken(how, backend_alive=True) in FAILURES for how in Broken)


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        (None, None),
        ("7", 7000),
        (" 0 ", 0),
        ("soon", None),
        ("-3", None),
        ("1.5", None),
        ("9" * 30, 3_600_000),
        (format_datetime(datetime.fromtimestamp(1_700_000_030, UTC), usegmt=True), 30_000),
        (format_datetime(datetime.fromtimestamp(1_600_000_000, UTC), usegmt=True), 0),
        ("Wed, 99 Foo 2023 25:61:61 GMT", None),
    ],
)
def test_retry_after_is_read_in_both_spellings_and_bounded(header: str | None, wait_ms: int | None) -> None:
    assert read_retry_after(header, NOW) == wait_ms


@pytest.mark.parametrize(
    ("kind", "stream", "plain_text", "plan"),
    [
        (BackendKind.VLLM, False, True, CallPlan(streamed=False, relayed=False)),
        (BackendKind.VLLM, True, True, CallPlan(streamed=True, relayed=True)),
        (BackendKind.OPENAI, False, True, CallPlan(streamed=False, relayed=False)),
        (BackendKind.LLAMA_CPP, False, True, CallPlan(streamed=True, relayed=False)),
        (BackendKind.LLAMA_CPP, False, False, CallPlan(streamed=False, relayed=False)),
        (BackendKind.LLAMA_CPP, True, False, CallPlan(streamed=True, relayed=True)),
    ],
)
def test_a_backend_is_called_as_the_caller_asked_but_where_it_can_not_cancel(
    kind: BackendKind, stream: bool, plain_text: bool, plan: CallPlan
) -> None:
    request = msgspec.structs.replace(run_of(1, boot="b").request, stream=stream, plain_text=plain_text)
    assert how_to_call(request, kind) == plan


@pytest.mark.parametrize("kind", list(BackendKind))
def test_what_may_be_stopped_is_streamed_upstream_and_a_caller_is_shown_what_it_asked_for(
    kind: BackendKind,
) -> None:
    request = msgspec.structs.replace(run_of(1, boot="b").request, plain_text=True)
    counted = kind is BackendKind.VLLM
    assert how_to_call(request, kind, keeps=True) == CallPlan(streamed=True, relayed=False, counted=counted)
    streamed = msgspec.structs.replace(request, stream=True)
    assert how_to_call(streamed, kind, keeps=True) == CallPlan(streamed=True, relayed=True)


ODD_TEXT = st.text(max_size=8) | st.sampled_from(['"', "\\", "}{", '\\"'])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(
    st.text(max_size=6) | st.sampled_from(["stream", "stream_options"]), JSON, max_size=6
)


@given(OBJECTS, st.booleans(), st.sampled_from([b"", b"\n", b" \t"]))
def test_a_member_is_set_and_every_other_byte_is_kept(
    fields: dict[str, object], indent: bool, space: bytes
) -> None:
    body = space + orjson.dumps(fields, option=orjson.OPT_INDENT_2 if indent else None) + space
    changed = with_member(body, "stream", b"true")
    assert orjson.loads(changed) == {**fields, "stream": True}
    before = member_of(body, "stream")
    if before is None:
        at = body.index(b"{") + 1
        comma = b"," if fields else b""
        assert changed == body[:at] + b'"stream":true' + comma + body[at:]
    elif fields["stream"] is True:
        assert changed == body
    else:
        head, tail = _around(body, changed)
        assert head + b"true" + tail == changed
        assert head + before + tail == body


def _around(body: bytes, changed: bytes) -> tuple[bytes, bytes]:
    """Where the member's value stands, found by its length alone."""
    before = member_of(body, "stream") or b""
    for at in range(len(body)):
        head, tail = body[:at], body[at + len(before) :]
        if body[at:].startswith(before) and changed == head + b"true" + tail:
            return head, tail
    raise AssertionError("more than the member's value changed")


@given(OBJECTS)
def test_usage_is_asked_for_and_other_stream_options_are_kept(fields: dict[str, object]) -> None:
    options = fields.get("stream_options")
    for all_along in (False, True):
        changed = orjson.loads(with_usage(orjson.dumps(fields), all_along=all_along))
        if options is None or isinstance(options, dict):
            asked = {"include_usage": True} | ({"continuous_usage_stats": True} if all_along else {})
            assert changed == {**fields, "stream_options": {**(options or {}), **asked}}
        else:
            assert changed == fields


def test_duplicates_escapes_and_nested_members_do_not_confuse_the_editor() -> None:
    body = b'{"a":{"stream":1},"str\\u0065am" : false ,"stream":null,"b":"\\"stream\\":2"}'
    assert (
        with_member(body, "stream", b"true")
        == b'{"a":{"stream":1},"str\\u0065am" : true ,"stream":true,"b":"\\"stream\\":2"}'
    )


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b'{"a":1', b'{"\xff":1}'])
def test_what_is_no_object_is_left_to_the_backend_to_refuse(body: bytes) -> None:
    with pytest.raises(NotAnObjectError):
        with_member(body, "stream", b"true")
    assert body_for(CallPlan(streamed=True, relayed=True), REQUEST, body) == body


@pytest.mark.parametrize("streamed", [False, True])
def test_only_a_request_that_was_passed_on_is_called_with_the_model_of_its_record(streamed: bool) -> None:
    body, plan = b'{"model": "big", "n":1}', CallPlan(streamed=streamed, relayed=False)
    passed_on = msgspec.structs.replace(REQUEST, hop=1, through=("home",), model='a "small" one')
    assert orjson.loads(body_for(plan, REQUEST, body))["model"] == "big"
    sent = orjson.loads(body_for(plan, passed_on, body))
    assert (sent["model"], sent["n"], "stream" in sent) == ('a "small" one', 1, streamed)
    assert body_for(plan, passed_on, b"[]") == b"[]"


def report(worker: str, lane: int, boot: str = "1") -> Report:
    return Report(worker=worker, boot=boot, epoch=0, lane=lane, position=0, limit=1)


def test_the_lane_with_the_fewest_live_workers_is_picked() -> None:
    records: list[WorkerRecord] = [
        report("a", 0),
        report("b", 1),
        report("c", 2),
        Gone(worker="b", boot="1"),
        report("me", 1),
    ]
    assert pick_lane(records, lanes=3, worker="me") == 1
    moved = [*records, report("a", 1, boot="2"), report("a", 0, boot="1")]
    assert pick_lane(moved, lanes=3, worker="me") == 0
    assert 0 <= pick_lane([], lanes=16, worker="anyone") < 16


def test_workers_that_start_together_spread_over_the_lanes() -> None:
    lanes = {pick_lane([], lanes=16, worker=f"worker-{n}") for n in range(32)}
    assert len(lanes) > 6


def test_only_a_boot_that_is_anothers_and_has_not_left_takes_a_name() -> None:
    def report(worker: str, boot: str) -> Report:
        return Report(worker=worker, boot=boot, epoch=1, lane=0, position=0, limit=1)

    log: list[WorkerRecord] = [
        report("w", "mine"),
        report("w", "left"),
        Gone(worker="w", boot="left"),
        report("v", "other"),
    ]
    assert others_of(log, worker="w", own={"mine"}) == set()
    assert others_of([*log, report("w", "twin")], worker="w", own={"mine"}) == {"twin"}
