"""Records of `results`, `attempts` and `requests` as their writers write them, for tests of result-delivery."""

from typing import Any

from headrace.bus.messages import Message, Place, message_of
from headrace.contracts.ids import AttemptId, mint_request_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin, Payload, Times, Usage

ACCEPTED_MS = 1_760_000_000_000
TRACEPARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def request_id(number: int, partition: int = 0) -> str:
    """A genuine id; the same for the same number and partition."""
    return mint_request_id(
        b"k" * 32,
        tenant="acme",
        pool="main",
        tier="standard",
        partition=partition,
        wall_ms=ACCEPTED_MS + number,
        random=number.to_bytes(10, "big"),
    )


def result(
    number: int, *, partition: int = 0, attempt: int = 1, body: bytes = b"{}", **more: Any
) -> ResultRecord:
    """A result of request `number`."""
    fields: dict[str, Any] = {
        "id": request_id(number, partition),
        "tenant": "acme",
        "pool": "main",
        "tier": "standard",
        "partition": partition,
        "origin": Origin("headrace.requests.main.standard", partition, number),
        "attempt": AttemptId(1, attempt),
        "attempts": attempt,
        "status": Status.SUCCEEDED,
        "http_status": 200,
        "accepted_ms": ACCEPTED_MS,
        "gateway": 1,
        "model": "small",
        "route": "/v1/chat/completions",
        "payload": Payload(size=len(body)),
        "waits": True,
        "usage": Usage(prompt_tokens=11, completion_tokens=7),
        "times": Times(dispatched_ms=ACCEPTED_MS + 5, finished_ms=ACCEPTED_MS + 1234),
        "worker": "worker-1",
    }
    return ResultRecord(**{**fields, **more})


def result_message(topic: str, record: ResultRecord, body: bytes = b"{}") -> Message:
    """As the worker would produce it."""
    return message_of(Place(topic, record.partition), record, body, trace=(("traceparent", TRACEPARENT),))


def attempt(number: int, *, partition: int = 0, sequence: int = 1, **more: Any) -> AttemptRecord:
    """A finished attempt at request `number`."""
    fields: dict[str, Any] = {
        "id": request_id(number, partition),
        "tenant": "acme",
        "tier": "standard",
        "origin": Origin("headrace.requests.main.standard", partition, number),
        "attempt": AttemptId(1, sequence),
        "attempts": sequence,
        "verdict": Verdict.DONE,
        "status": Status.SUCCEEDED,
        "worker": "worker-1",
        "boot": "b1",
        "charge": 25,
        "usage": Usage(prompt_tokens=11, completion_tokens=7),
        "times": Times(dispatched_ms=ACCEPTED_MS + 5, finished_ms=ACCEPTED_MS + 1234),
        "model": "small",
    }
    return AttemptRecord(**{**fields, **more})


def attempt_message(topic: str, record: AttemptRecord) -> Message:
    """As the worker would produce it."""
    return message_of(Place(topic, record.origin.partition), record)


def request(number: int, *, partition: int = 0, body: bytes = b"{}", **more: Any) -> RequestRecord:
    """Request `number`, accepted."""
    fields: dict[str, Any] = {
        "id": request_id(number, partition),
        "tenant": "acme",
        "pool": "main",
        "tier": "standard",
        "partition": partition,
        "model": "small",
        "route": "/v1/chat/completions",
        "accepted_ms": ACCEPTED_MS,
        "payload": Payload(size=len(body)),
        "gateway": 1,
    }
    return RequestRecord(**{**fields, **more})


def request_message(topic: str, record: RequestRecord, body: bytes = b"{}") -> Message:
    """As ingest would produce it."""
    return message_of(Place(topic, record.partition), record, body)
