"""Whether an attempt record may be true. Called by the core before it folds one.

Invariant: what contradicts itself, its place or what is known moves no counter and finishes nothing.
"""

from typing import NamedTuple

from headrace.contracts.ids import MalformedIdError, read_request_id
from headrace.contracts.lifecycle import is_terminal
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.values import Origin


class Known(NamedTuple):
    """What the owner has read of the request itself."""

    origin: Origin
    tenant: str


def lie_in_attempt(
    record: AttemptRecord, *, partition: int, pool: str, tier: str, known: Known | None
) -> str | None:
    """A sentence, or None. `partition` is where the record stands, `tier` that of its origin's topic."""
    if known is not None and known != (record.origin, record.tenant):
        return "Its origin or tenant isn't that of its request."
    if record.tier != tier or record.origin.partition != partition:
        return "Its tier or partition isn't that of its origin."
    # The owner's own end of a lying request names what that request named; it moves no counter.
    if known is None and record.started and not _names(record.id, pool, tier, partition):
        return "Its request's id names another place."
    ends = record.verdict is not Verdict.RETRY_AT
    if ends and (record.status is None or not is_terminal(record.status)):
        return "It ends its request without saying how."
    return None


def _names(request_id: str, pool: str, tier: str, partition: int) -> bool:
    try:
        address = read_request_id(request_id)
    except MalformedIdError:
        return False
    return (address.pool, address.tier, address.partition) == (pool, tier, partition)
