"""What a record of `requests` or `attempts` can't truly say, whatever its reader knows. Asked by each that reads them.

Invariant: both readers of a pool's logs, its owner and result-delivery, refuse the same records for the same reasons, so that
one of them alone may write the dead letter. What only one of them can know is its own rule, beside its own decisions.
"""

from typing import NamedTuple

from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import names_other_pool, names_place
from headrace.contracts.lifecycle import is_terminal
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.requests import RequestRecord


class Lie(NamedTuple):
    """The reason for the dead letter, and a sentence for whoever reads it."""

    kind: FailureKind
    sentence: str


def lie_in_request(record: RequestRecord, *, pool: str, tier: str, partition: int) -> Lie | None:
    """What it says of itself; the three are those of the place where it stands."""
    if holds_nul(record.id, record.tenant, record.model, record.route):
        return Lie(FailureKind.LYING_RECORD, "It names itself, its tenant or its model with a NUL character.")
    if record.pool != pool:
        return Lie(FailureKind.UNKNOWN_POOL, "Its pool isn't that of the topic it stands in.")
    if (record.tier, record.partition) != (tier, partition):
        return Lie(FailureKind.LYING_RECORD, "Its tier or partition isn't that of the topic it stands in.")
    if len(record.through) != record.hop or pool in record.through:
        return Lie(FailureKind.LYING_RECORD, "It doesn't say truly through which pools it came.")
    # its outcome would be another's: whoever asks for the id asks where the id says that it lives, or began to
    home = record.through[0] if record.through else pool
    if not names_place(record.id, pool=home, tier=tier, partition=partition):
        return Lie(FailureKind.LYING_RECORD, "Its id names another place, or is no request id.")
    return None


def lie_in_attempt(
    record: AttemptRecord, *, pool: str, tier: str | None, partition: int, known: bool = False
) -> Lie | None:
    """What it says of its request and of its end. `partition` is where it stands; `tier` is that of the topic of its origin,
    None where that is no request topic of the pool. `known`: a request of this id was read there and came as it says, so that
    its id needn't be asked again.
    """
    sentence = _place_of_attempt(record, pool, tier, partition, known=known) or _end_of_attempt(record)
    return None if sentence is None else Lie(FailureKind.LYING_ATTEMPT, sentence)


def holds_nul(*texts: str | None) -> bool:
    """Whether one has a NUL character: PostgreSQL stores none, so such a record would block its partition for ever."""
    for text in texts:  # noqa: SIM110 asked of every record, and a generator costs more than the search
        if text and "\0" in text:
            return True
    return False


def _place_of_attempt(
    record: AttemptRecord, pool: str, tier: str | None, partition: int, *, known: bool
) -> str | None:
    if tier is None:
        return "Its request isn't of this pool."
    if (record.tier, record.origin.partition) != (tier, partition):
        # it would be charged where nobody released it
        return "Its tier or partition isn't that of its origin."
    # The owner's own end of a lying request names what that request named; it moves no counter.
    names = names_other_pool if record.hop else names_place
    if record.started and not known and not names(record.id, pool=pool, tier=tier, partition=partition):
        return "Its request's id names another place."
    return None


def _end_of_attempt(record: AttemptRecord) -> str | None:
    if record.verdict is not Verdict.RETRY_AT and (record.status is None or not is_terminal(record.status)):
        return "It ends its request without saying how."
    if holds_nul(record.id, record.tenant, record.tier, record.worker, record.boot, record.model):
        return "It names its request, tenant or worker with a NUL character."
    return None
