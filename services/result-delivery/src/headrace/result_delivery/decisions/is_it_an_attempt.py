"""Is this record of `attempts` a finished attempt that may be booked? Asked by judging for each record that is read of it.

Invariant: what contradicts itself or its place is refused with a reason and billed to nobody. Whether it is true doesn't
depend on this service's policy: the pool's owner may know of a tier a moment earlier.
"""

from dataclasses import dataclass

from headrace.contracts.barriers import Barrier
from headrace.contracts.codec import UndecodableError, decode, find_header
from headrace.contracts.failures import FailureKind
from headrace.contracts.lies import lie_in_attempt
from headrace.contracts.outcomes import AttemptRecord
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.result_delivery.decisions.why_refused import Headers, Refused


@dataclass(frozen=True, slots=True)
class Attempted:
    """A finished attempt of this pool."""

    record: AttemptRecord
    pool: str


def attempted_of(
    partition: int, value: bytes | None, headers: Headers, *, pool: str, names: TopicNames
) -> Attempted | Barrier | Refused:
    """The attempt that a record of this partition holds, or why it holds none."""
    try:
        record: AttemptRecord | Barrier = decode(TopicKind.ATTEMPTS, find_header(headers))
    except UndecodableError as error:
        return Refused(FailureKind.EMPTY_RECORD if value is None else error.kind, str(error))
    if isinstance(record, Barrier):
        return record
    came_by = names.of(TopicKind.REQUESTS, pool=pool, tier=record.tier)
    tier = record.tier if record.origin.topic == came_by else None
    lie = lie_in_attempt(record, pool=pool, tier=tier, partition=partition)
    return Attempted(record, pool) if lie is None else Refused(*lie, record.id, record.tenant)
