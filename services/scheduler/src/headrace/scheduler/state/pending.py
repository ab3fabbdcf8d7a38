"""Orders that stand in `control` and aren't obeyed yet. Kept by core.control_log and core.orders.

Invariant: no checkpoint's position passes one of them, so that a successor reads it again.
"""

from dataclasses import dataclass

from headrace.bus.messages import Place, Received
from headrace.contracts.control import CancelRequest


@dataclass(slots=True)
class PendingCancel:
    """A cancel that isn't applied yet. `read_to`: once the request partition is read up to there, the id is known or gone."""

    received: Received
    request: CancelRequest
    place: Place | None
    read_to: int | None = None

    @property
    def offset(self) -> int:
        """Where it stands."""
        return self.received.offset


@dataclass(slots=True)
class PendingDrain:
    """A worker that is to be taken out of service (`draining`) or put back. `told_ms`: since boot, when it was told last."""

    offset: int
    asked_ms: int
    draining: bool
    told_ms: int = -(10**12)


@dataclass(frozen=True, slots=True)
class PendingMove:
    """The pool is to go to this replica."""

    offset: int
    to: str
