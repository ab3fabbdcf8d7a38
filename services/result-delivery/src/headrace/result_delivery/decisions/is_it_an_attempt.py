"""Is this record of `attempts` a finished attempt that may be booked? Asked by judging for each record that is read of it.

Invariant: what contradicts itself or its place is refused with a reason and billed to nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.contracts.codec import UndecodableError, decode, find_header
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import names_place
from headrace.contracts.lifecycle import is_terminal
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.topics import TopicKind
from headrace.result_delivery.decisions.refusing import Headers, Refusal, holds_nul


@dataclass(frozen=True, slots=True)
class Attempted:
    """A finished attempt of this pool."""

    record: AttemptRecord
    pool: str


def attempted_of(
    partition: int, value: bytes | None, headers: Headers, *, pool: str, tiers: Mapping[str, str]
) -> Attempted | Refusal:
    """The attempt that a record of this partition holds, or why it holds none. `tiers`: request topic -> tier."""
    header = find_header(headers)
    try:
        record: AttemptRecord = decode(TopicKind.ATTEMPTS, header)
    except UndecodableError as error:
        return Refusal(FailureKind.EMPTY_RECORD if value is None else error.kind, str(error))
    lie = _lie_in(record, partition, pool, tiers)
    if lie is not None:
        return Refusal(FailureKind.LYING_ATTEMPT, lie, record.id, record.tenant)
    if holds_nul(header, record.id, record.tenant, record.tier, record.worker, record.boot, record.model):
        detail = "an attempt names its request, tenant or worker with a NUL character, which SQL can't store"
        return Refusal(FailureKind.LYING_ATTEMPT, detail)
    return Attempted(record, pool)


def _lie_in(record: AttemptRecord, partition: int, pool: str, tiers: Mapping[str, str]) -> str | None:
    tier = tiers.get(record.origin.topic)
    if tier is None:
        return "an attempt at a request that isn't of this pool"
    if (record.tier, record.origin.partition) != (tier, partition):
        return "an attempt's tier or partition isn't that of its request"
    # The owner's own end of a lying request names what that request named.
    if record.started and not names_place(record.id, pool=pool, tier=tier, partition=partition):
        return "an attempt's request id names another place"
    if record.verdict is not Verdict.RETRY_AT and (record.status is None or not is_terminal(record.status)):
        return "an attempt ends its request without saying how"
    return None
