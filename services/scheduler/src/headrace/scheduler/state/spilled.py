"""The requests of which only the metadata is in memory, a few hundred bytes each: found by id, in order, and by instant.

Used by state.fair_queue, state.requests and core.spilling. Invariant: all of them wait and are unfinished, so that no
checkpoint's prefix and no trimming passes them, and the log has what isn't here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from itertools import chain

from headrace.bus.messages import Place
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.decisions.pick_next import OrderKey, with_priority
from headrace.scheduler.decisions.when_expired import expires_ms
from headrace.scheduler.state.packed import (
    Packing,
    Stub,
    charge_of,
    id_in,
    key_of,
    key_of_order,
    order_of_packed,
    with_order,
)
from headrace.scheduler.state.sorted_runs import Pair, SortedPairs, SortedRecords
from headrace.scheduler.state.tenant_queue import Waiting
from headrace.scheduler.state.tracked import Tracked

Whose = tuple[str, str]
"""Tier and tenant."""
_NOTHING: Mapping[int, SortedRecords] = {}


class Spilled:
    """All of one pool."""

    def __init__(self) -> None:
        self._packing = Packing()
        self._by_key: dict[int, bytes] = {}
        self.in_order: dict[Whose, dict[int, SortedRecords]] = {}
        """By tenant that has any, and in it by flow; changed here alone."""
        self._expiries = SortedPairs()
        self._arrivals: dict[str, SortedPairs] = {}
        self._of_place: Counter[Place] = Counter()
        self._of_tier: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, request_id: object) -> bool:
        return isinstance(request_id, str) and self._find(request_id) is not None

    def put(self, tracked: Tracked) -> bool:
        """Keep its metadata. False: it can't be kept so, and stays as it is."""
        record, key = tracked.record, key_of(tracked.id)
        packed = None if key in self._by_key else self._packing.pack(tracked)
        if packed is None:
            return False
        self._by_key[key] = packed
        flows = self.in_order.setdefault((record.tier, record.tenant), {})
        flows.setdefault(tracked.flow, SortedRecords()).add(packed)
        instant = expires_ms(tracked.start_by_ms, record.finish_by_ms, waiting=True)
        if instant is not None:
            self._expiries.add(instant, key)
        self._arrivals.setdefault(record.tier, SortedPairs()).add(record.accepted_ms, key)
        self._of_place[Place(tracked.origin.topic, tracked.origin.partition)] += 1
        self._of_tier[record.tier] += 1
        return True

    def take(self, request_id: str) -> Tracked | None:
        """Take it out, still waiting and without its payload; None: it isn't here."""
        packed = self._find(request_id)
        if packed is None:
            return None
        tracked, key = self._packing.unpack(packed), key_of(request_id)
        record, place = tracked.record, Place(tracked.origin.topic, tracked.origin.partition)
        del self._by_key[key]
        self._out_of_order(tracked, packed)
        instant = expires_ms(tracked.start_by_ms, record.finish_by_ms, waiting=True)
        if instant is not None:
            self._expiries.remove(instant, key)
        self._arrivals[record.tier].remove(record.accepted_ms, key)
        self._of_place[place] -= 1
        self._of_tier[record.tier] -= 1
        self._packing.forget(packed)
        return tracked

    def reprioritise(self, request_id: str, priority: int) -> bool:
        """Let it stay here, at the place that this priority gives it. False: it isn't here, or has it already."""
        packed = self._find(request_id)
        if packed is None:
            return False
        before = order_of_packed(packed)
        order = with_priority(before, priority)
        if order != before:
            tier, tenant, flow = self._packing.whose(packed)
            own = self.in_order[tier, tenant][flow]
            own.remove(packed)
            moved = self._by_key[key_of(request_id)] = with_order(packed, order)
            own.add(moved)
        return order != before

    def look(self, request_id: str) -> Tracked | None:
        """A copy of it, to be read alone."""
        packed = self._find(request_id)
        return None if packed is None else self._packing.unpack(packed)

    def has(self, tier: str, tenant: str) -> bool:
        """Whether a tenant has any here."""
        return (tier, tenant) in self.in_order

    def place_of(self, tier: str, tenant: str) -> Place | None:
        """The partition in which a tenant's stand: its name says which. None: it has none here."""
        flows = self.in_order.get((tier, tenant), _NOTHING)
        return next((self._packing.stub(own.first()).place for own in flows.values()), None)

    def first(self, tier: str, tenant: str, flow: int) -> OrderKey | None:
        """Where the first of a flow stands in its order."""
        own = self.in_order.get((tier, tenant), _NOTHING).get(flow)
        return None if own is None else order_of_packed(own.first())

    def firsts(self, tier: str, tenant: str) -> dict[int, tuple[OrderKey, int]]:
        """By flow of a tenant where its first stands in its order, and what all of the flow cost, in micro service units."""
        flows = self.in_order.get((tier, tenant), _NOTHING)
        return {flow: (order_of_packed(own.first()), own.cost) for flow, own in flows.items()}

    def in_turns(self, tier: str, tenant: str, counters: Mapping[int, int]) -> Iterator[Stub]:
        """All of a tenant: each flow in its order, and flows in turns. `counters`: at which it is the turn of each flow's
        first, in micro service units; they don't matter where there is only one flow. Read it before anything changes here.
        """
        flows = self.in_order.get((tier, tenant), _NOTHING)
        found = _in_turns(flows, counters) if len(flows) > 1 else chain(*flows.values())
        return map(self._packing.stub, found)

    def ahead(self, tier: str, tenant: str, flow: int, order: OrderKey) -> Waiting:
        """What of a flow goes before this."""
        own = self.in_order.get((tier, tenant), _NOTHING).get(flow)
        return Waiting(0, 0) if own is None else Waiting(*own.before(key_of_order(order)))

    def due(self, wall_ms: int, most: int) -> list[str]:
        """The ids of those whose time is over, earliest first, so many at most; they stay here."""
        return [id_in(self._by_key[key]) for key in self._expiries.until(wall_ms, most)]

    def next_ms(self) -> int | None:
        """When the time of the first is over, Unix ms."""
        first = self._expiries.first()
        return None if first is None else first[0]

    def oldest_ms(self, tier: str) -> int | None:
        """When the oldest of a tier was accepted, Unix ms."""
        first = self._arrivals[tier].first() if tier in self._arrivals else None
        return None if first is None else first[0]

    def accepted_after(self, tier: str, after: Pair, most: int) -> list[tuple[Pair, Facts]]:
        """What an operator may ask of those of a tier that come after this pair of an instant and a key, so many at most."""
        pairs = self._arrivals[tier].after(after, most) if tier in self._arrivals else []
        return [(pair, self._packing.facts(self._by_key[pair[1]])) for pair in pairs]

    def count_of(self, place: Place) -> int:
        """How many of a partition."""
        return self._of_place[place]

    def count_of_tier(self, tier: str) -> int:
        """How many of a tier."""
        return self._of_tier[tier]

    def _out_of_order(self, tracked: Tracked, packed: bytes) -> None:
        whose = tracked.record.tier, tracked.record.tenant
        flows = self.in_order[whose]
        flows[tracked.flow].remove(packed)
        if not flows[tracked.flow]:
            del flows[tracked.flow]
        if not flows:
            del self.in_order[whose]

    def _find(self, request_id: str) -> bytes | None:
        packed = self._by_key.get(key_of(request_id)) if self._by_key else None
        return packed if packed is not None and id_in(packed) == request_id else None


def _in_turns(flows: Mapping[int, SortedRecords], counters: Mapping[int, int]) -> Iterator[bytes]:
    """As they will be picked if nothing else comes: the flow of the least counter first, and each charge moves its flow's."""
    turns = [(counters[flow], flow) for flow in flows]
    heapify(turns)
    records = {flow: iter(own) for flow, own in flows.items()}
    while turns:
        counter, flow = turns[0]
        packed = next(records[flow], None)
        if packed is None:
            heappop(turns)
        else:
            yield packed
            heapreplace(turns, (counter + charge_of(packed), flow))
