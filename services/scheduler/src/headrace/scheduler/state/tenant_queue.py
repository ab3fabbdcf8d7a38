"""What waits of one tenant, and of one tier. Used by state.fair_queue.

Invariant: the counts hold all that waits; the heap holds what of it is in memory, and lazily deleted entries.
"""

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headrace.scheduler.decisions.pick_next import OrderKey
from headrace.scheduler.decisions.what_to_spill import Amount
from headrace.scheduler.decisions.when_to_pause import OVERHEAD
from headrace.scheduler.state.tracked import Phase, Tracked

_SLACK = 64


class Waiting(NamedTuple):
    """So many requests, and their cost in micro service units."""

    requests: int
    cost: int


@dataclass(slots=True)
class TenantQueue:
    """`whole`, `size`: requests with their payloads, and bytes that they take."""

    heap: list[tuple[OrderKey, int, Tracked]] = field(default_factory=list)
    waiting: int = 0
    cost: int = 0
    whole: int = 0
    size: int = 0

    @property
    def in_memory(self) -> Amount:
        """What is in memory with its payload."""
        return Amount(self.whole, self.size)

    def enter(self, request: Tracked, number: int) -> None:
        """Into the heap. `number` tells those apart who come at the same place."""
        heappush(self.heap, (request.order, number, request))
        self.payload_came(request)

    def payload_came(self, request: Tracked) -> None:
        """It waits in memory, and its payload came."""
        received = request.received
        if received is not None:
            self.whole += 1
            self.size += len(received.value or b"") + OVERHEAD

    def left(self, request: Tracked) -> None:
        """It waits no longer."""
        received = request.received
        if received is not None:
            self.whole -= 1
            self.size -= len(received.value or b"") + OVERHEAD
        if len(self.heap) > 2 * self.whole + _SLACK:  # let go of entries that no longer count, now and then
            self.heap = [entry for entry in self.heap if entry[2].phase is Phase.WAITING]
            heapify(self.heap)

    def first(self) -> Tracked | None:
        """The first of those in memory."""
        while self.heap and self.heap[0][2].phase is not Phase.WAITING:
            heappop(self.heap)
        return self.heap[0][2] if self.heap else None


@dataclass(slots=True)
class TierQueue:
    """`heap`: tenants by their counters, lazily deleted. `weight`: of all tenants with waiting requests."""

    tenants: dict[str, TenantQueue] = field(default_factory=dict)
    heap: list[tuple[int, str]] = field(default_factory=list)
    waiting: int = 0
    cost: int = 0
    weight: int = 0
