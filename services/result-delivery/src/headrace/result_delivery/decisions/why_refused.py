"""Why a record is none that result-delivery may store. Used by the three decisions that look at records.

Invariant: whatever can't be stored is refused with a reason, never skipped: it is dead-lettered, by this service before it
goes on, or by the owner of its pool.
"""

from dataclasses import dataclass

from headrace.contracts.failures import FailureKind

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why; `id` and `tenant` where they could be read."""

    reason: FailureKind
    detail: str
    id: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class LeftToOwner:
    """A record of `requests` or `attempts` that the pool's owner refuses too, by the same rules (headrace.contracts.lies).

    The owner alone writes its dead letter, and keeps its position before the record until `dlq` has confirmed it; nothing is
    trimmed before that, whoever else has read. Here it is only counted.
    """

    reason: FailureKind
