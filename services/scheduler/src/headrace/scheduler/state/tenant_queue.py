"""What waits of one tenant and its flows, and in which order. Used by state.fair_queue.

Invariant: the counts hold all that waits; the heaps hold what of it is in memory, and lazily deleted entries; only flows of
which something waits are here, and they take turns only where there are two.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from headrace.bus.messages import Received
from headrace.scheduler.decisions.pick_next import OrderKey
from headrace.scheduler.decisions.what_to_spill import Amount
from headrace.scheduler.decisions.when_to_pause import OVERHEAD
from headrace.scheduler.state.account import Account
from headrace.scheduler.state.flows import Flows
from headrace.scheduler.state.in_order import in_order
from headrace.scheduler.state.tracked import Phase, Tracked

_SLACK = 64


class Waiting(NamedTuple):
    """So many requests, and their cost in micro service units."""

    requests: int
    cost: int


def counts(number: int, request: Tracked) -> bool:
    """Whether an entry of a heap is where this request waits: it has one place in its order at a time."""
    return request.phase is Phase.WAITING and request.entry == number


@dataclass(slots=True)
class FlowQueue:
    """What waits of one flow, in order. `whole`: requests with their payloads.

    `passed`: how often its first was, of late; `awaits`: which first waits for a backend, and since when (ms since boot).
    """

    heap: list[tuple[OrderKey, int, Tracked]] = field(default_factory=list)
    waiting: int = 0
    cost: int = 0
    whole: int = 0
    passed: int = 0
    awaits: tuple[str, int] | None = None

    def first(self) -> Tracked | None:
        """The first of those in memory."""
        while self.heap:
            _, number, request = self.heap[0]
            if request.phase is Phase.WAITING and request.entry == number:
                return request
            heappop(self.heap)
        return None

    def tidy(self) -> None:
        """Let go of entries that no longer count, where there are many."""
        if len(self.heap) > 2 * self.whole + _SLACK:
            self.heap = [entry for entry in self.heap if counts(entry[1], entry[2])]
            heapify(self.heap)

    def first_few(self, most: int) -> list[Tracked]:
        """The first of those in memory with their payloads, in order; the logarithm of so many for each."""
        entries = (entry for entry in in_order(self.heap) if counts(entry[1], entry[2]))
        here = (request for _, _, request in entries if request.received is not None)
        return list(islice(here, most))


@dataclass(slots=True, eq=False)
class TenantQueue:
    """`account`, `weight`: the tenant's in this tier; `entered_at`: its counter where its turn among the others is entered.
    `turns`: flows by their counters, lazily deleted. `whole`, `size`: requests with their payloads, and bytes of these.
    """

    account: Account
    weight: int
    entered_at: int | None = None
    flows: dict[int, FlowQueue] = field(default_factory=dict)
    turns: list[tuple[int, int]] = field(default_factory=list)
    waiting: int = 0
    cost: int = 0
    whole: int = 0
    size: int = 0

    @property
    def in_memory(self) -> Amount:
        """What is in memory with its payload."""
        return Amount(self.whole, self.size)

    def begin(self, flow: int, counters: Flows | None) -> None:
        """A flow becomes backlogged. `counters`: None where no request had a key, and so there is only one flow."""
        if counters is not None:
            least = counters.of(self.next_flow(counters)).value if self.flows else None
            counters.lift(flow, least)
        self.flows[flow] = FlowQueue()
        if len(self.flows) == 2 and counters is not None:
            self.turns = [(counters.of(each).value, each) for each in self.flows]
            heapify(self.turns)
        elif counters is not None:
            self.moved(flow, counters)

    def end(self, flow: int) -> None:
        """Nothing of a flow waits any more."""
        del self.flows[flow]
        if len(self.flows) == 1:
            self.turns = []

    def moved(self, flow: int, counters: Flows) -> None:
        """A flow's counter has moved: enter it anew where it takes turns."""
        if len(self.flows) > 1 and flow in self.flows:
            heappush(self.turns, (counters.of(flow).value, flow))
            if len(self.turns) > 4 * len(self.flows) + _SLACK:
                self.turns = [(counters.of(each).value, each) for each in self.flows]
                heapify(self.turns)

    def next_flow(self, counters: Flows) -> int:
        """The flow whose turn it is: of those that wait the one with the least counter. Call only where one waits."""
        while self.turns:
            value, flow = self.turns[0]
            if flow in self.flows and counters.of(flow).value == value:
                return flow
            heappop(self.turns)
        return next(iter(self.flows))

    def turns_of_spilled(self, firsts: Mapping[int, tuple[OrderKey, int]], counters: Flows) -> dict[int, int]:
        """At which counter it is the turn of each flow's first that is spilled: after what of it goes before from memory.

        `firsts`: of each such flow where that stands in its order, and what all that is spilled of it costs.
        """
        found = {}
        for flow, (order, cost) in firsts.items():
            queue = self.flows[flow]
            here = queue.first()
            ahead = 0 if here is None or here.order > order else queue.cost - cost
            found[flow] = counters.of(flow).value + ahead
        return found

    def enter(self, request: Tracked, number: int) -> None:
        """Into the heap. `number` tells those apart who come at the same place."""
        flow, request.entry = self.flows[request.flow], number
        heappush(flow.heap, (request.order, number, request))
        if request.received is not None:
            self._whole(flow, request.received)

    def reorder(self, request: Tracked, order: OrderKey, number: int) -> None:
        """It stands elsewhere in its flow's order from now on: its old entry no longer counts."""
        flow = self.flows[request.flow]
        request.order, request.entry = order, number
        heappush(flow.heap, (order, number, request))
        flow.tidy()

    def payload_came(self, request: Tracked) -> None:
        """It waits in memory, and its payload came."""
        if request.received is not None:
            self._whole(self.flows[request.flow], request.received)

    def _whole(self, flow: FlowQueue, received: Received) -> None:
        self.whole += 1
        flow.whole += 1
        self.size += len(received.value or b"") + OVERHEAD

    def comes(self, request: Tracked) -> None:
        """It waits from now on, wherever it is."""
        flow = self.flows[request.flow]
        self.waiting += 1
        self.cost += request.charge
        flow.waiting += 1
        flow.cost += request.charge

    def left(self, request: Tracked) -> None:
        """It waits no longer."""
        flow, received = self.flows[request.flow], request.received
        self.waiting -= 1
        self.cost -= request.charge
        flow.waiting -= 1
        flow.cost -= request.charge
        if received is not None:
            self.whole -= 1
            flow.whole -= 1
            self.size -= len(received.value or b"") + OVERHEAD
        if not flow.waiting:
            self.end(request.flow)
        else:
            flow.tidy()


NOBODY = TenantQueue(Account(Fraction(1)), 1)
"""Of a tenant of whom nothing waits. To look at."""
