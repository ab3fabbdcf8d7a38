"""The requests of which only the metadata is in memory, a few hundred bytes each: found by id, in order, and by instant.

Used by state.fair_queue, state.requests and core.spilling. Invariant: all of them wait and are unfinished, so that no
checkpoint's prefix and no trimming passes them, and the log has what isn't here.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from headrace.bus.messages import Place
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.decisions.pick_next import OrderKey
from headrace.scheduler.decisions.when_expired import expires_ms
from headrace.scheduler.state.packed import Packing, Stub, id_in, key_of, key_of_order, order_of_packed
from headrace.scheduler.state.sorted_runs import Pair, SortedPairs, SortedRecords
from headrace.scheduler.state.tenant_queue import Waiting
from headrace.scheduler.state.tracked import Tracked

Whose = tuple[str, str]
"""Tier and tenant."""


class Spilled:
    """All of one pool."""

    def __init__(self) -> None:
        self._packing = Packing()
        self._by_key: dict[int, bytes] = {}
        self.in_order: dict[Whose, SortedRecords] = {}
        """Of each tenant that has any; changed here alone."""
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
        self.in_order.setdefault((record.tier, record.tenant), SortedRecords()).add(packed)
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
        whose = record.tier, record.tenant
        self.in_order[whose].remove(packed)
        if not self.in_order[whose]:
            del self.in_order[whose]
        instant = expires_ms(tracked.start_by_ms, record.finish_by_ms, waiting=True)
        if instant is not None:
            self._expiries.remove(instant, key)
        self._arrivals[record.tier].remove(record.accepted_ms, key)
        self._of_place[place] -= 1
        self._of_tier[record.tier] -= 1
        self._packing.forget(packed)
        return tracked

    def look(self, request_id: str) -> Tracked | None:
        """A copy of it, to be read alone."""
        packed = self._find(request_id)
        return None if packed is None else self._packing.unpack(packed)

    def has(self, tier: str, tenant: str) -> bool:
        """Whether a tenant has any here."""
        return (tier, tenant) in self.in_order

    def first(self, tier: str, tenant: str) -> OrderKey | None:
        """Where the first of a tenant stands in its order."""
        own = self.in_order.get((tier, tenant))
        return None if own is None else order_of_packed(own.first())

    def firsts(self, tier: str, tenant: str, most: int) -> Iterator[Stub]:
        """The first of a tenant, in order, so many at most."""
        own = self.in_order.get((tier, tenant), ())
        return map(self._packing.stub, islice(own, most))

    def ahead(self, tier: str, tenant: str, order: OrderKey) -> Waiting:
        """What of a tenant goes before this."""
        own = self.in_order.get((tier, tenant))
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

    def _find(self, request_id: str) -> bytes | None:
        packed = self._by_key.get(key_of(request_id))
        return packed if packed is not None and id_in(packed) == request_id else None
