"""The requests that wait, in the order in which they are to run: tiers, in them tenants, in them requests.

Used by the core. Heaps with lazy deletion: an entry counts only while what it says is still so. O(log T + log n) a pick.
Invariant: a request is picked only in phase WAITING, and each waiting request has exactly one entry that counts; its charge
doesn't change while it waits.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headrace.scheduler.decisions.pick_next import OrderKey, lifted, most_in_flight, pick_tier
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.tracked import Phase, Tracked


class Waiting(NamedTuple):
    """So many requests, and their cost in micro service units."""

    requests: int
    cost: int


@dataclass(slots=True)
class _TenantQueue:
    heap: list[tuple[OrderKey, int, Tracked]] = field(default_factory=list)
    waiting: int = 0
    cost: int = 0


@dataclass(slots=True)
class _TierQueue:
    tenants: dict[str, _TenantQueue] = field(default_factory=dict)
    heap: list[tuple[int, str]] = field(default_factory=list)
    waiting: int = 0
    cost: int = 0
    weight: int = 0
    """Of all tenants with waiting requests."""


class FairQueue:
    """Waiting requests of one pool."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._tiers = {name: _TierQueue() for name in accounts.tiers}
        self._entries = 0
        accounts.moved = self.touch

    def put(self, request: Tracked) -> None:
        """Let it wait. Its tenant and tier are lifted when they become backlogged by it."""
        request.phase = Phase.WAITING
        name, tenant = request.record.tier, request.record.tenant
        tier = self._tiers[name]
        if not tier.waiting:
            self._accounts.lift_tier(name)
        queue = tier.tenants.get(tenant)
        if queue is None:
            self._lift(name, tenant)
            queue = tier.tenants[tenant] = _TenantQueue()
            tier.weight += self._accounts.weight_of(tenant)
            self.touch(name, tenant)
        self._entries += 1
        heappush(queue.heap, (request.order, self._entries, request))
        for each in (queue, tier):
            each.waiting += 1
            each.cost += request.charge

    def take(self, request: Tracked, phase: Phase) -> None:
        """It waits no longer: it has been dispatched, is ending or has finished."""
        if request.phase is not Phase.WAITING:
            raise ValueError(f"{request.record.id} isn't waiting, it is {request.phase.name}")
        request.phase = phase
        tier = self._tiers[request.record.tier]
        queue = tier.tenants[request.record.tenant]
        for each in (queue, tier):
            each.waiting -= 1
            each.cost -= request.charge
        if not queue.waiting:
            del tier.tenants[request.record.tenant]
            tier.weight -= self._accounts.weight_of(request.record.tenant)
        elif len(queue.heap) > 2 * queue.waiting + 64:
            queue.heap = [entry for entry in queue.heap if entry[2].phase is Phase.WAITING]
            heapify(queue.heap)

    def touch(self, tier: str, tenant: str) -> None:
        """The tenant's counter has moved: enter it anew where it is backlogged."""
        queue = self._tiers[tier]
        if tenant in queue.tenants:
            heappush(queue.heap, (self._accounts.of(tier, tenant).value, tenant))
            if len(queue.heap) > 4 * len(queue.tenants) + 64:
                queue.heap = [(self._accounts.of(tier, name).value, name) for name in queue.tenants]
                heapify(queue.heap)

    def next(self, slots: int, closed: Set[str] = frozenset()) -> Tracked | None:
        """The request to run next, still waiting; None when nobody waits but in tiers that are closed now.

        `slots`: attempts that the pool may hold. Tenants that have as many in flight as they may are passed over, and lifted
        to who is served in their place: they had their part of the slots, and credit for the rest would set others back.
        """
        tags = {
            name: self._accounts.tiers[name].account.value
            for name, tier in self._tiers.items()
            if tier.waiting and name not in closed
        }
        chosen = pick_tier(tags)
        if chosen is None:
            return None
        tier = self._tiers[chosen]
        return self._first_of(tier.tenants[self._next_tenant(chosen, tier, slots)])

    def ahead_of(self, request: Tracked) -> Waiting:
        """What of the same tenant and tier goes before this one. Linear; for answers to queries."""
        queue = self._tiers[request.record.tier].tenants.get(request.record.tenant, _TenantQueue())
        live = {entry[2].id: entry[2] for entry in queue.heap if entry[2].phase is Phase.WAITING}
        ahead = [other.charge for other in live.values() if other.order < request.order]
        return Waiting(len(ahead), sum(ahead))

    def backlog(self, tier: str, tenant: str) -> Waiting:
        """What of a tenant waits in a tier."""
        queue = self._tiers[tier].tenants.get(tenant, _TenantQueue())
        return Waiting(queue.waiting, queue.cost)

    def backlog_of_tier(self, tier: str) -> Waiting:
        """What waits in a tier."""
        return Waiting(self._tiers[tier].waiting, self._tiers[tier].cost)

    def backlog_of_all(self) -> Waiting:
        """What waits in the pool."""
        tiers = self._tiers.values()
        return Waiting(sum(tier.waiting for tier in tiers), sum(tier.cost for tier in tiers))

    def backlogs(self, tier: str) -> dict[str, Waiting]:
        """What of each tenant waits in a tier; only those of whom something does."""
        return {name: Waiting(of.waiting, of.cost) for name, of in self._tiers[tier].tenants.items()}

    def share_of_tier(self, tier: str) -> Fraction:
        """The part of the pool's work that a tier gets while it waits with the tiers that wait now."""
        shares = {name: self._accounts.tiers[name].account.share for name in self._tiers}
        busy = sum(shares[name] for name, queue in self._tiers.items() if queue.waiting or name == tier)
        return shares[tier] / busy

    def share(self, tier: str, tenant: str) -> Fraction:
        """The part of the pool's work that a tenant gets in a tier while it waits there with those who wait now."""
        queue, weight = self._tiers[tier], self._accounts.weight_of(tenant)
        others = queue.weight - (weight if tenant in queue.tenants else 0)
        return self.share_of_tier(tier) * weight / (others + weight)

    def depth(self, tier: str) -> int:
        """How many wait in a tier."""
        return self._tiers[tier].waiting

    def backlogged(self) -> dict[str, set[str]]:
        """Tenants with waiting requests, by tier."""
        return {name: set(tier.tenants) for name, tier in self._tiers.items()}

    def _lift(self, name: str, tenant: str) -> None:
        accounts, tier = self._accounts.tiers[name], self._tiers[name]
        least = [self._accounts.of(name, self._least_tenant(name, tier)).value] if tier.tenants else []
        self._accounts.lift(name, tenant, lifted(0, least, accounts.largest_tag))

    def _next_tenant(self, name: str, tier: _TierQueue, slots: int) -> str:
        passed: dict[str, int] = {}
        while len(passed) < len(tier.tenants):
            chosen = self._least_tenant(name, tier)
            most = most_in_flight(self._accounts.weight_of(chosen), tier.weight, slots)
            if self._accounts.of(name, chosen).in_flight < most:
                break
            passed[chosen] = heappop(tier.heap)[0]
        else:
            chosen = next(
                iter(passed)
            )  # all have what they may, as after slots were lost: then it is no limit
        for tenant, counter in passed.items():
            heappush(tier.heap, (counter, tenant))
            self._accounts.lift(name, tenant, self._accounts.of(name, chosen).value)
        return chosen

    def _least_tenant(self, name: str, tier: _TierQueue) -> str:
        while True:
            value, tenant = tier.heap[0]
            if tenant in tier.tenants and self._accounts.of(name, tenant).value == value:
                return tenant
            heappop(tier.heap)

    @staticmethod
    def _first_of(queue: _TenantQueue) -> Tracked:
        while queue.heap[0][2].phase is not Phase.WAITING:
            heappop(queue.heap)
        return queue.heap[0][2]
