"""The one header: records to compact JSON and back. Called by whoever reads or writes a topic, through its topic's kind.

Invariant: unknown fields are ignored, so that a newer writer may add some; an unknown tag, a missing field or a value out
of its bounds is UndecodableError, and never reaches a decision.
"""

import re
from functools import cache
from typing import Any

import msgspec

from headrace.contracts.barriers import Barrier
from headrace.contracts.checkpoints import StateRecord
from headrace.contracts.commands import Command
from headrace.contracts.control import ControlRecord
from headrace.contracts.failures import FailureKind
from headrace.contracts.observations import DeadLetter, QueueStateRecord
from headrace.contracts.outcomes import AttemptRecord, ResultRecord
from headrace.contracts.replies import ReplyRecord
from headrace.contracts.reports import WorkerRecord
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import cut_sentence

HEADER = "headrace"
_BOUND = re.compile(r"Expected `\w+`( of length)? [<>]=? ")
"""How msgspec begins to say that a value is beyond its bounds."""
TRACE_HEADERS = ("traceparent", "tracestate")

AnyRecord = (
    RequestRecord
    | ResultRecord
    | AttemptRecord
    | Command
    | WorkerRecord
    | StateRecord
    | ControlRecord
    | ReplyRecord
    | QueueStateRecord
    | DeadLetter
    | Barrier
)

RECORDS: dict[TopicKind, Any] = {
    TopicKind.REQUESTS: RequestRecord | Barrier,
    TopicKind.RESULTS: ResultRecord,
    TopicKind.ATTEMPTS: AttemptRecord | Barrier,
    TopicKind.WORK: Command,
    TopicKind.WORKERS: WorkerRecord,
    TopicKind.STATE: StateRecord | Barrier,
    TopicKind.CONTROL: ControlRecord | Barrier,
    TopicKind.REPLIES: ReplyRecord,
    TopicKind.QUEUE_STATE: QueueStateRecord,
    TopicKind.DLQ: DeadLetter,
}


class UndecodableError(ValueError):
    """The header isn't a record of this topic; the message says where and why, without a payload in it."""

    kind = FailureKind.UNDECODABLE


class OutOfBoundsError(UndecodableError):
    """The header has the shape of a record of this topic, but a value that is impossible."""

    kind = FailureKind.OUT_OF_BOUNDS


@cache
def _decoder(kind: TopicKind) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(RECORDS[kind])


def encode(record: AnyRecord) -> bytes:
    """The `headrace` header of a record: compact JSON, UTF-8."""
    return msgspec.json.encode(record)


def decode(kind: TopicKind, header: bytes | None) -> Any:  # noqa: ANN401 - the kind decides which of AnyRecord it is
    """The record of a header. Raises UndecodableError, also for a missing header."""
    if header is None:
        raise UndecodableError(f"a record of {kind} has no {HEADER!r} header")
    try:
        return _decoder(kind).decode(header)
    except (msgspec.DecodeError, ValueError) as error:
        impossible = isinstance(error, msgspec.ValidationError) and _BOUND.match(str(error))
        sort = OutOfBoundsError if impossible else UndecodableError
        raise sort(cut_sentence(f"a {kind} header can't be decoded: {error}")) from error


def find_header(headers: tuple[tuple[str, bytes], ...], name: str = HEADER) -> bytes | None:
    """The last header of this name: a record may carry several, and the last one counts."""
    for key, value in reversed(headers):
        if key == name:
            return value
    return None
