"""Is this record of `requests` an accepted request of its topic? Asked by judging for each record that is read of it.

Invariant: whatever isn't one is refused with a reason, never skipped. The payload isn't looked at.
"""

from dataclasses import dataclass

from headrace.contracts.codec import UndecodableError, decode, find_header
from headrace.contracts.failures import FailureKind
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Origin
from headrace.result_delivery.decisions.refusing import Headers, Refusal, holds_nul


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted request and where it stands."""

    record: RequestRecord
    origin: Origin


def accepted_of(
    origin: Origin, value: bytes | None, headers: Headers, *, pool: str, tier: str
) -> Accepted | Refusal:
    """The request that stands there, or why none does. `pool` and `tier` are those of the topic."""
    header = find_header(headers)
    try:
        record: RequestRecord = decode(TopicKind.REQUESTS, header)
    except UndecodableError as error:
        return Refusal(FailureKind.EMPTY_RECORD if value is None else error.kind, str(error))
    if (record.pool, record.tier, record.partition) != (pool, tier, origin.partition):
        detail = "a request's pool, tier or partition isn't that of the topic it stands in"
        kind = FailureKind.LYING_RECORD if record.pool == pool else FailureKind.UNKNOWN_POOL
        return Refusal(kind, detail, record.id, record.tenant)
    if holds_nul(header, record.id, record.tenant, record.model, record.route):
        detail = "a request names itself, its tenant or model with a NUL character, which SQL can't store"
        return Refusal(FailureKind.LYING_RECORD, detail)
    return Accepted(record, origin)
