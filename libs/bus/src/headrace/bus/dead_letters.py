"""Builds what is written to `dlq` from a record that is taken out of service. Called by every service that dead-letters.

Pure. Invariant: the value and the headers are the original's bytes, so that a record never grows from one dead letter to
the next; a value that doesn't fit is left out, and the header says where the original stands.
"""

from headrace.bus.messages import Headers, Message, Place, Received
from headrace.contracts.codec import HEADER, UndecodableError, encode
from headrace.contracts.deaths import Death
from headrace.contracts.failures import FailureKind
from headrace.contracts.observations import DeadLetter
from headrace.contracts.topics import TOPICS, TopicKind
from headrace.contracts.values import cut_sentence

ORIGINAL_HEADER = "headrace-original"
MOST_DEATHS = 12
"""The last deaths that a letter tells of, so that the history of a long search fits beside the original's headers."""
_ROOM_FOR_BATCH = 1024
"""What Kafka adds to a lone record, and to spare."""


def dead_letter(
    dlq: Place,
    record: Received,
    reason: FailureKind,
    *,
    by: str,
    at_ms: int,
    detail: str = "",
    id: str | None = None,  # noqa: A002 - the record's own field
    tenant: str | None = None,
    attempts: int = 0,
    deaths: tuple[Death, ...] = (),
    max_bytes: int = TOPICS[TopicKind.DLQ].max_message_bytes,
) -> Message:
    """The dead letter of `record`, for the partition `dlq`. `at_ms` is Unix ms, `by` the service's name.

    A message that would be larger than `max_bytes` becomes a stub without the value and, if need be, without the headers.
    """
    letter = DeadLetter(
        reason=reason,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        at_ms=at_ms,
        by=by,
        detail=cut_sentence(detail),
        id=id,
        tenant=tenant,
        attempts=attempts,
        deaths=deaths[-MOST_DEATHS:],
    )
    head: Headers = ((HEADER, encode(letter)),)
    kept = head + tuple((_renamed(name), value) for name, value in record.headers)
    for value, headers in ((record.value, kept), (b"", kept), (b"", head)):
        message = Message(dlq.topic, dlq.partition, value, headers, record.key)
        if _size(message) <= max_bytes - _ROOM_FOR_BATCH:
            break
    return message


def reason_of(record: Received, error: UndecodableError) -> FailureKind:
    """Why a record that can't be decoded is taken out: a tombstone, an impossible value, or no record of its topic at all."""
    return FailureKind.EMPTY_RECORD if record.value is None else error.kind


def _renamed(name: str) -> str:
    return ORIGINAL_HEADER if name == HEADER else name


def _size(message: Message) -> int:
    headers = sum(len(name.encode()) + len(value) + 10 for name, value in message.headers)
    return len(message.key or b"") + len(message.value or b"") + headers
