"""Is this record of `requests` an accepted request of its topic? Asked by judging for each record that is read of it.

Invariant: whatever isn't one is refused with a reason, never skipped. The payload isn't looked at.
"""

from dataclasses import dataclass

from headrace.contracts.barriers import Barrier
from headrace.contracts.codec import UndecodableError, decode, find_header
from headrace.contracts.failures import FailureKind
from headrace.contracts.lies import lie_in_request
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Origin
from headrace.result_delivery.decisions.why_refused import Headers, Refused


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted request and where it stands."""

    record: RequestRecord
    origin: Origin


def accepted_of(
    origin: Origin, value: bytes | None, headers: Headers, *, pool: str, tier: str
) -> Accepted | Barrier | Refused:
    """The request that stands there, or why none does. `pool` and `tier` are those of the topic."""
    try:
        record: RequestRecord | Barrier = decode(TopicKind.REQUESTS, find_header(headers))
    except UndecodableError as error:
        return Refused(FailureKind.EMPTY_RECORD if value is None else error.kind, str(error))
    if isinstance(record, Barrier):
        return record
    lie = lie_in_request(record, pool=pool, tier=tier, partition=origin.partition)
    return Accepted(record, origin) if lie is None else Refused(*lie, record.id, record.tenant)
