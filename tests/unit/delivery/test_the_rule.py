"""The rule: whatever the interleaving, duplication and redelivery, the first terminal record in log order is the result."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary_event
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.codec import HEADER, decode, encode
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Final
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Payload
from headrace.result_delivery.decisions.is_it_a_result import TerminalRecord, outcome_of
from headrace.result_delivery.decisions.what_to_commit import Commit, what_to_commit
from headrace.result_delivery.decisions.what_to_tell import MAX_FINAL_BYTES, Destinations, rfc3339
from headrace.result_delivery.decisions.why_refused import Refused
from tests.support.results import ACCEPTED_MS, TRACEPARENT, request_id, result

NOW = ACCEPTED_MS + 2000
WHERE = Destinations("headrace.replies", "headrace.events", gateways=4)
TRACE = (("traceparent", TRACEPARENT),)


def committed(*outcomes: TerminalRecord, known: set[str] | None = None) -> Commit:
    return what_to_commit(outcomes, known or set(), committed_ms=NOW, destinations=WHERE)


def outcome(number: int = 1, body: bytes = b"{}", **more: Any) -> TerminalRecord:
    return TerminalRecord(result(number, body=body, **more), body, TRACE)


LOG = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=40)
"""A partition's records in log order: (request, attempt)."""


@given(
    log=LOG,
    cuts=st.lists(st.integers(0, 40), max_size=6),
    steps_back=st.lists(st.integers(0, 40), max_size=6),
)
def test_any_batching_and_redelivery_keeps_the_first_of_each_request(
    log: list[tuple[int, int]], cuts: list[int], steps_back: list[int]
) -> None:
    stored: dict[str, int] = {}
    told: list[str] = []
    position, back = 0, iter(steps_back)
    for cut in [*cuts, len(log)]:
        # a redelivery begins at or before the position, as after a rebalance without a commit
        begin = max(0, position - next(back, 0))
        position = max(position, min(cut, len(log)))
        batch = [outcome(number, attempt=attempt) for number, attempt in log[begin:position]]
        commit = committed(*batch, known=set(stored))
        assert len(commit.rows) + len(commit.suppressed) == len(batch)
        assert not stored.keys() & {row["id"] for row in commit.rows}
        stored |= {row["id"]: row["attempt_sequence"] for row in commit.rows}
        told += [
            decode(TopicKind.REPLIES, dict(m.headers)[HEADER]).id
            for m in commit.outbox
            if m.topic == WHERE.replies
        ]
    first = dict(reversed(log))
    assert stored == {request_id(number): attempt for number, attempt in first.items()}
    assert sorted(told) == sorted(stored)


def test_who_waits_gets_the_stored_body_and_others_are_told_where_it_is() -> None:
    waiting, polling = outcome(1, b'{"a":1}'), outcome(2, b'{"a":2}', waits=False)
    large = outcome(3, b"x" * (MAX_FINAL_BYTES + 1))
    elsewhere = outcome(4, b"", payload=Payload(size=9, reference="objects/4"))
    finals = [m for m in committed(waiting, polling, large, elsewhere).outbox if m.topic == WHERE.replies]
    records: list[Final] = [decode(TopicKind.REPLIES, dict(final.headers)[HEADER]) for final in finals]
    assert [final.value for final in finals] == [b'{"a":1}', b"", b"", b""]
    assert [record.stored for record in records] == [False, True, True, True]
    assert all(final.partition == 1 and dict(final.headers)["traceparent"] == TRACEPARENT for final in finals)


def test_a_gateway_that_does_not_exist_is_not_told_and_the_result_is_kept() -> None:
    commit = committed(outcome(gateway=4))
    assert [row["gateway"] for row in commit.rows] == [4]
    assert [message.topic for message in commit.outbox] == [WHERE.events]


@pytest.mark.parametrize(
    "status", [Status.SUCCEEDED, Status.FAILED, Status.EXPIRED, Status.CANCELLED, Status.DEAD_LETTERED]
)
def test_the_event_is_a_cloudevent_to_the_official_library_and_holds_no_answer(status: Status) -> None:
    failure = (
        None
        if status is Status.SUCCEEDED
        else Failure(kind=FailureKind.BACKEND_ERROR, message="secret words")
    )
    record = outcome(body=b'{"text":"secret words"}', status=status, failure=failure)
    message = committed(record).outbox[-1]
    event = from_binary_event(KafkaMessage(dict(message.headers), message.key, message.value), JSONFormat())
    assert event.get_type() == f"dev.headrace.request.{status.value}"
    assert event.get_source() == "/headrace/main"
    assert event.get_subject() == record.record.id
    assert event.get_id() == f"{record.record.id}-{status.value}"
    assert event.get_time() is not None
    assert event.get_datacontenttype() == "application/json"
    assert event.get_extension("partitionkey") == "acme"
    assert message.key == b"acme"
    assert (message.partition, dict(message.headers)["traceparent"]) == (0, TRACEPARENT)
    data = msgspec.json.decode(message.value)
    assert data["link"] == f"/v1/requests/{record.record.id}/result"
    assert data["usage"]["completion_tokens"] == 7
    assert data["failure"] == (failure and "backend_error")
    assert b"secret" not in message.value + b"".join(value for _, value in message.headers)


def test_a_record_that_holds_no_result_is_refused_with_its_reason() -> None:
    record = result(1, partition=2)
    good = ((HEADER, encode(record)),)

    def reason(
        partition: int, value: bytes | None, headers: tuple[tuple[str, bytes], ...]
    ) -> FailureKind | None:
        judged = outcome_of(partition, value, headers)
        return judged.reason if isinstance(judged, Refused) else None

    nul = ((HEADER, encode(result(1, partition=2, tenant="a\0b"))),)
    assert reason(2, b"", good) is None
    assert reason(2, b"", ()) is FailureKind.UNDECODABLE
    assert reason(2, b"", ((HEADER, b"{"),)) is FailureKind.UNDECODABLE
    assert reason(2, None, good) is FailureKind.EMPTY_RECORD
    assert reason(2, None, ()) is FailureKind.EMPTY_RECORD
    for lie in (
        {"usage": {"completion_tokens": -1}},
        {"usage": {"prompt_tokens": 10**12}},
        {"accepted_ms": 0},
    ):
        lying = {**msgspec.json.decode(encode(record)), **lie}
        header = ((HEADER, msgspec.json.encode(lying)),)
        assert reason(2, b"", header) is FailureKind.OUT_OF_BOUNDS, lie
    running = {**msgspec.json.decode(encode(record)), "status": "running"}
    assert reason(2, b"", ((HEADER, msgspec.json.encode(running)),)) is FailureKind.UNDECODABLE
    assert reason(3, b"", good) is FailureKind.LYING_RECORD
    assert reason(2, b"", nul) is FailureKind.LYING_RECORD


def test_a_nul_in_a_failure_message_does_not_reach_sql() -> None:
    failure = Failure(kind=FailureKind.BACKEND_ERROR, message="a\0b")
    assert committed(outcome(failure=failure)).rows[0]["failure_message"] == "a\ufffdb"


@given(st.integers(1_577_836_800_000, 4_102_444_800_000))
def test_times_are_exact_to_the_millisecond(at_ms: int) -> None:
    parsed = datetime.fromisoformat(rfc3339(at_ms))
    assert round(parsed.timestamp() * 1000) == at_ms
    assert parsed.utcoffset() == timedelta()
