"""Why a record is none that result-delivery may store. Used by the three decisions that look at records.

Invariant: whatever can't be stored is refused with a reason, never skipped: the service dead-letters it before it goes on.
"""

from dataclasses import dataclass

from headrace.contracts.failures import FailureKind

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why; `id` and `tenant` where they could be read."""

    reason: FailureKind
    detail: str
    id: str | None = None
    tenant: str | None = None
