"""Orders that stand in `control` and aren't obeyed yet. Kept by core.control_log and core.orders.

Invariant: no checkpoint's position passes one of them, so that a successor reads it again.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from headrace.bus.messages import Place, Received
from headrace.contracts.control import CancelRequest


@dataclass(slots=True, eq=False)
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


class Cancels:
    """All cancels that aren't applied, one for each request and tenant that asks.

    A cancel of what nobody has read yet may wait for hours, and there may be very many: it is `parked`, and costs nothing
    until the request partition is read up to where it was told to look, or the request turns up.
    """

    def __init__(self) -> None:
        self._by_offset: dict[int, PendingCancel] = {}
        self._by_request: defaultdict[str, dict[str, PendingCancel]] = defaultdict(dict)
        self._looked_at: dict[int, PendingCancel] = {}
        self._parked: defaultdict[Place, list[tuple[int, int]]] = defaultdict(list)
        """By place a heap of (`read_to`, offset): who is parked again doesn't stand behind those who wait for more."""

    def __len__(self) -> int:
        return len(self._by_offset)

    def has(self, request_id: str, tenant: str) -> bool:
        """Whether this tenant wants this request to end."""
        return tenant in self._by_request.get(request_id, ())

    def of(self, request_id: str) -> list[PendingCancel]:
        """All that are meant for this request."""
        return list(self._by_request.get(request_id, {}).values())

    def keep(self, cancel: PendingCancel) -> None:
        """A new one. Call in log order."""
        self._by_offset[cancel.offset] = self._looked_at[cancel.offset] = cancel
        self._by_request[cancel.request.id][cancel.request.tenant] = cancel

    def drop(self, cancel: PendingCancel) -> None:
        """It is applied, or means nothing."""
        del self._by_offset[cancel.offset]
        self._looked_at.pop(cancel.offset, None)
        of_request = self._by_request[cancel.request.id]
        del of_request[cancel.request.tenant]
        if not of_request:
            del self._by_request[cancel.request.id]

    def ended(self, request_id: str) -> None:
        """Its request has ended."""
        for cancel in self.of(request_id):
            self.drop(cancel)

    def park(self, cancel: PendingCancel) -> None:
        """Look at it again only when its place is read up to `read_to`, or when it is woken."""
        if cancel.place is not None and self._looked_at.pop(cancel.offset, None) is not None:
            heappush(self._parked[cancel.place], (cancel.read_to or 0, cancel.offset))

    def wake(self, request_id: str) -> None:
        """The request has turned up."""
        for cancel in self._by_request.get(request_id, {}).values():
            self._looked_at[cancel.offset] = cancel

    def to_look_at(self, read: Callable[[Place], int]) -> list[PendingCancel]:
        """Those that may be applied now. `read` tells how far a request partition is read."""
        for place, parked in self._parked.items():
            while parked and read(place) >= parked[0][0]:
                _, offset = heappop(parked)
                if offset in self._by_offset:
                    self._looked_at[offset] = self._by_offset[offset]
        return list(self._looked_at.values())

    @property
    def first_offset(self) -> int | None:
        """Where the oldest of them stands."""
        return next(iter(self._by_offset), None)


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
