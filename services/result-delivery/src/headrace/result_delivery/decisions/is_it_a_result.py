"""Is this record of `results` a result that may be committed? Asked by the service for each record it reads.

Invariant: whatever isn't one is refused with a reason, never skipped: the service dead-letters it before it goes on.
"""

from dataclasses import dataclass

from headrace.contracts.codec import TRACE_HEADERS, UndecodableError, decode, find_header
from headrace.contracts.failures import FailureKind
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.topics import TopicKind

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A terminal record as it stands in the log: its value is the answer's body, `trace` the trace headers beside it."""

    record: ResultRecord
    body: bytes
    trace: Headers = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a record is none; `id` and `tenant` where they could be read."""

    reason: FailureKind
    detail: str
    id: str | None = None
    tenant: str | None = None


def outcome_of(partition: int, value: bytes | None, headers: Headers) -> Outcome | Refusal:
    """The result that a record of this partition holds, or why it holds none."""
    try:
        record: ResultRecord = decode(TopicKind.RESULTS, find_header(headers))
    except UndecodableError as error:
        return Refusal(FailureKind.UNDECODABLE, str(error))
    if value is None:
        return Refusal(
            FailureKind.EMPTY_RECORD, "a result is a tombstone: it has no value", record.id, record.tenant
        )
    if record.partition != partition:
        detail = f"a result that says partition {record.partition} stands in partition {partition}"
        return Refusal(FailureKind.LYING_RECORD, detail, record.id, record.tenant)
    if _holds_nul(record, find_header(headers) or b""):
        detail = "a result names its request, tenant or place with a NUL character, which SQL can't store"
        return Refusal(FailureKind.LYING_RECORD, detail)
    trace = tuple((name, content) for name, content in headers if name in TRACE_HEADERS)
    return Outcome(record, value, trace)


def _holds_nul(record: ResultRecord, header: bytes) -> bool:
    """PostgreSQL stores no NUL in a text: such a record would block its partition for ever. JSON always escapes it."""
    if b"\\u0000" not in header:
        return False
    payload = record.payload
    texts = (
        record.id,
        record.tenant,
        record.pool,
        record.tier,
        record.model,
        record.route,
        payload.content_type,
    )
    return any("\0" in text for text in (*texts, record.worker or "", payload.reference or ""))
