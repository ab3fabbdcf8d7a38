"""Is this record of `results` a result that may be committed? Asked by judging for each record that is read of it.

Invariant: whatever isn't one is refused with a reason, never skipped.
"""

from dataclasses import dataclass

from headrace.contracts.codec import TRACE_HEADERS, UndecodableError, decode, find_header
from headrace.contracts.failures import FailureKind
from headrace.contracts.lies import holds_nul
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.topics import TopicKind
from headrace.result_delivery.decisions.why_refused import Headers, Refused


@dataclass(frozen=True, slots=True)
class TerminalRecord:
    """A terminal record as it stands in the log: its value is the answer's body, `trace` the trace headers beside it."""

    record: ResultRecord
    body: bytes
    trace: Headers = ()


def outcome_of(partition: int, value: bytes | None, headers: Headers) -> TerminalRecord | Refused:
    """The result that a record of this partition holds, or why it holds none."""
    try:
        record: ResultRecord = decode(TopicKind.RESULTS, find_header(headers))
    except UndecodableError as error:
        return Refused(FailureKind.EMPTY_RECORD if value is None else error.kind, str(error))
    if value is None:
        return Refused(
            FailureKind.EMPTY_RECORD, "a result is a tombstone: it has no value", record.id, record.tenant
        )
    if record.partition != partition:
        detail = f"a result that says partition {record.partition} stands in partition {partition}"
        return Refused(FailureKind.LYING_RECORD, detail, record.id, record.tenant)
    if holds_nul(*_texts(record)):
        detail = "a result names its request, tenant or place with a NUL character, which SQL can't store"
        return Refused(FailureKind.LYING_RECORD, detail)
    trace = tuple((name, content) for name, content in headers if name in TRACE_HEADERS)
    return TerminalRecord(record, value, trace)


def _texts(record: ResultRecord) -> tuple[str | None, ...]:
    payload = record.payload
    names = (record.id, record.tenant, record.pool, record.tier, record.model, record.route, record.worker)
    return (*names, payload.content_type, payload.reference)
