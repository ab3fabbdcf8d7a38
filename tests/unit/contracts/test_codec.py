"""A header that lies fails to decode; one from a newer version decodes all the same."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.codec import HEADER, RECORDS, UndecodableError, decode, encode, find_header
from headrace.contracts.lifecycle import Status
from headrace.contracts.seal import CannotOpenError, Encoding, Unsealed
from headrace.contracts.topics import TopicKind
from tests.support.results import result

GOOD: dict[str, Any] = msgspec.json.decode(encode(result(1)))


def changed(path: str, value: object) -> bytes:
    document: Any = copy.deepcopy(GOOD)
    *folders, last = path.split(".")
    inner = document
    for folder in folders:
        inner = inner[int(folder) if isinstance(inner, list) else folder]
    inner[int(last) if isinstance(inner, list) else last] = value
    return msgspec.json.encode(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("usage.completion_tokens", -1),
        ("usage.prompt_tokens", 2**53 + 1),
        ("usage.prompt_tokens", 1.5),
        ("accepted_ms", 253_370_764_800_000),  # year 9999
        ("accepted_ms", 0),
        ("times.finished_ms", -1),
        ("attempt.0", -1),
        ("attempt.1", 2**63),
        ("attempt", [1]),
        ("origin.2", -1),
        ("partition", 65_536),
        ("gateway", -1),
        ("http_status", 99),
        ("status", "running"),
        ("status", "lost"),
        ("tenant", ""),
        ("tenant", "x" * 129),
        ("payload.encoding", "rot13"),
        ("type", "reslut"),
        ("type", None),
        ("id", 7),
    ],
)
def test_a_lying_header_is_undecodable(path: str, value: object) -> None:
    with pytest.raises(UndecodableError, match="results"):
        decode(TopicKind.RESULTS, changed(path, value))


@pytest.mark.parametrize(
    "header", [None, b"", b"{", b"[]", b"\xff", b"null", b'{"type":"result"}', b"[" * 100_000]
)
def test_what_is_no_record_is_undecodable(header: bytes | None) -> None:
    for kind in RECORDS:
        with pytest.raises(UndecodableError):
            decode(kind, header)


@given(st.binary(max_size=60))
def test_any_bytes_decode_or_are_undecodable(header: bytes) -> None:
    for kind in RECORDS:
        with pytest.raises(UndecodableError) as told:
            decode(kind, header)
        assert len(str(told.value)) <= 1024


def test_what_a_newer_version_adds_is_ignored() -> None:
    newer = changed("colour", "blue")
    assert decode(TopicKind.RESULTS, newer) == result(1)
    assert decode(TopicKind.RESULTS, changed("usage.colour", 1)) == result(1)


def test_a_record_of_another_topic_is_undecodable_here() -> None:
    with pytest.raises(UndecodableError):
        decode(TopicKind.ATTEMPTS, encode(result(1)))


def test_a_result_is_never_made_of_an_unfinished_request() -> None:
    with pytest.raises(ValueError, match="terminal"):
        result(1, status=Status.RUNNING)


def test_the_last_header_of_a_name_counts() -> None:
    assert find_header(((HEADER, b"old"), ("other", b"x"), (HEADER, b"new"))) == b"new"
    assert find_header((("other", b"x"),)) is None


def test_without_a_key_plain_bytes_stay_as_they_are_and_sealed_ones_are_refused() -> None:
    seal = Unsealed()
    encoding, stored = seal.seal(b"prompt", tenant="acme", request_id="req_1")
    assert (encoding, stored) == (Encoding.NONE, b"prompt")
    assert seal.open(stored, encoding, tenant="acme", request_id="req_1") == b"prompt"
    with pytest.raises(CannotOpenError, match="req_1"):
        seal.open(b"prompt", Encoding.SEALED, tenant="acme", request_id="req_1")
