"""Dead letters keep the original's bytes, and grow with nothing."""

from headrace.bus.dead_letters import ORIGINAL_HEADER, dead_letter
from headrace.bus.messages import Message, Place, Received
from headrace.contracts.codec import HEADER, decode, find_header
from headrace.contracts.failures import FailureKind
from headrace.contracts.observations import DeadLetter
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import MAX_SENTENCE

DLQ = Place("dlq", 3)
AT_MS = 1_800_000_000_000


def received(value: bytes | None = b"\x00value\xff", header: bytes = b"not json") -> Received:
    headers = ((HEADER, header), ("traceparent", b"00-1"), ("traceparent", b"00-2"))
    return Received("requests.p.t", 3, 42, AT_MS, value, headers, b"key")


def letter(record: Received, *, detail: str = "", max_bytes: int = 10_000) -> tuple[Message, DeadLetter]:
    message = dead_letter(
        DLQ,
        record,
        FailureKind.UNDECODABLE,
        by="scheduler",
        at_ms=AT_MS,
        detail=detail,
        tenant="acme",
        attempts=2,
        max_bytes=max_bytes,
    )
    decoded: DeadLetter = decode(TopicKind.DLQ, find_header(message.headers))
    return message, decoded


def test_value_key_and_headers_are_the_originals_under_a_header_that_says_why() -> None:
    message, decoded = letter(received(), detail="a sentence")
    assert (message.place, message.value, message.key) == (DLQ, b"\x00value\xff", b"key")
    assert message.headers[1:] == (
        (ORIGINAL_HEADER, b"not json"),
        ("traceparent", b"00-1"),
        ("traceparent", b"00-2"),
    )
    assert (decoded.reason, decoded.topic, decoded.partition, decoded.offset) == (
        FailureKind.UNDECODABLE,
        "requests.p.t",
        3,
        42,
    )
    assert (decoded.by, decoded.tenant, decoded.attempts, decoded.at_ms) == ("scheduler", "acme", 2, AT_MS)
    assert decoded.detail == "a sentence"


def test_a_tombstone_stays_one() -> None:
    assert letter(received(None))[0].value is None


def test_error_text_is_cut() -> None:
    assert letter(received(), detail="x" * 5000)[1].detail == "x" * MAX_SENTENCE


def test_a_value_that_does_not_fit_is_left_out_and_headers_too_if_need_be() -> None:
    stub, decoded = letter(received(bytes(20_000)))
    assert (stub.value, len(stub.headers)) == (b"", 4)
    assert decoded.offset == 42
    bare, _ = letter(received(bytes(20_000), header=bytes(20_000)))
    assert (bare.value, len(bare.headers)) == (b"", 1)
