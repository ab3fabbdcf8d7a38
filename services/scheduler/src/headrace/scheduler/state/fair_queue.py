"""The requests that wait, in the order in which they are to run: tiers, in them tenants, in them flows, in them requests.

Used by the core. Heaps with lazy deletion: an entry counts only while what it says is still so. A pick is logarithmic in all.
Invariant: a request is picked only in phase WAITING, and each waiting request has exactly one entry that counts, here or in
state.spilled; its charge doesn't change while it waits. Who must be read again first is passed over, and keeps its turn.
"""

from collections.abc import Iterator, Set
from heapq import heappop
from itertools import islice

from headrace.contracts.requests import RequestRecord
from headrace.scheduler.decisions.pick_next import OrderKey, lifted, pick_tier
from headrace.scheduler.decisions.which_flow import NO_KEY
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.backlogs import Backlogs
from headrace.scheduler.state.held_back import HeldBack
from headrace.scheduler.state.in_order import in_order
from headrace.scheduler.state.packed import Stub
from headrace.scheduler.state.spilled import Spilled, Whose
from headrace.scheduler.state.tenant_queue import NOBODY, TenantQueue, TierQueue
from headrace.scheduler.state.tracked import Phase, Tracked


class FairQueue(Backlogs):
    """Waiting requests of one pool."""

    def __init__(self, accounts: Accounts, spilled: Spilled) -> None:
        super().__init__(accounts, spilled)
        self._entries = 0
        self.frozen = HeldBack(self._tiers, accounts, self._comes_back)
        self.hungry: dict[Whose, None] = {}
        """Tenants that have spilled, and of whom something came or went since somebody looked last."""
        accounts.moved, accounts.flow_moved = self.touch, self.touch_flow

    def assign(self, request: Tracked) -> int | None:
        """Say to which flow of its tenant it belongs from now on: that is charged for it. While it waits it stays the same.

        None, and NO_KEY where it waits: as long as a tenant sends no keys, nobody counts.
        """
        flow = self.flow_of(request.record) if self._accounts.flows or request.record.fairness_key else None
        request.flow = NO_KEY if flow is None else flow
        return flow

    def flow_of(self, record: RequestRecord) -> int | None:
        """The flow of such a request; None as above."""
        tier, tenant, key = record.tier, record.tenant, record.fairness_key
        if key is None:
            return NO_KEY if (tier, tenant) in self._accounts.flows else None
        queue = self._tiers[tier].tenants.get(tenant, NOBODY)
        return self._accounts.flows_of(tier, tenant).flow_of(key, queue.flows)

    def put(self, request: Tracked) -> None:
        """Let it wait. Its tenant and tier are lifted when they become backlogged by it."""
        request.phase = Phase.WAITING
        self.assign(request)
        self._queue_for(request)
        self.enter(request)

    def put_spilled(self, request: Tracked) -> None:
        """Let it wait among the spilled, where it is already, by the flow that it was assigned to."""
        request.phase = Phase.WAITING
        self._queue_for(request)
        self.hungry[request.record.tier, request.record.tenant] = None

    def enter(self, request: Tracked) -> None:
        """It has waited among the spilled, and is in memory now."""
        self._entries += 1
        self._tiers[request.record.tier].tenants[request.record.tenant].enter(request, self._entries)

    def reorder(self, request: Tracked, order: OrderKey) -> None:
        """It waits in memory, and stands elsewhere in its tenant's order from now on."""
        tier, tenant = request.record.tier, request.record.tenant
        self._entries += 1
        self._tiers[tier].tenants[tenant].reorder(request, order, self._entries)
        if self._spilled.has(tier, tenant):
            self.hungry[tier, tenant] = None

    def payload_came(self, request: Tracked) -> None:
        """It waits in memory, and its payload was read again."""
        self._tiers[request.record.tier].tenants[request.record.tenant].payload_came(request)

    def take(self, request: Tracked, phase: Phase) -> None:
        """It waits no longer: it has been dispatched, is ending or has finished."""
        if request.phase is not Phase.WAITING:
            raise ValueError(f"{request.record.id} isn't waiting, it is {request.phase.name}")
        request.phase = phase
        name, tenant = request.record.tier, request.record.tenant
        tier = self._tiers[name]
        queue = tier.tenants[tenant]
        for each in (queue, tier):
            each.waiting -= 1
            each.cost -= request.charge
        queue.left(request)
        if tenant in tier.aside:
            tier.aside_waiting -= 1
        if not queue.waiting:
            del tier.tenants[tenant]
            tier.leaves(tenant)
            tier.aside.discard(tenant)
            tier.weight -= self._accounts.weight_of(tenant)
            return
        if self._spilled.in_order and self._spilled.has(name, tenant):
            self.hungry[name, tenant] = None

    def touch(self, tier: str, tenant: str) -> None:
        """The tenant's counter has moved: where it is backlogged it is entered anew before anybody is picked."""
        queue = self._tiers[tier]
        if tenant in queue.tenants:
            queue.moved.add(tenant)

    def weights_changed(self) -> None:
        """Tenants have other weights, and so other counters."""
        for name, tier in self._tiers.items():
            tier.weight = sum(map(self._accounts.weight_of, tier.tenants))
            tier.enter_all(self._accounts.tiers[name].tenants)

    def touch_flow(self, tier: str, tenant: str, flow: int) -> None:
        """A flow's counter has moved: another may be next, and have to be read again."""
        queue = self._tiers[tier].tenants.get(tenant)
        if queue is not None:
            queue.moved(flow, self._accounts.flows[tier, tenant])
            if self._spilled.has(tier, tenant):
                self.hungry[tier, tenant] = None

    def next(self, slots: int, closed: Set[str] = frozenset(), *, going_on: bool = False) -> Tracked | None:
        """The request to run next, still waiting; None when nobody waits but in tiers that are closed now, or who must be
        read again first.

        `slots`: attempts that the pool may hold. Tenants that have as many in flight as they may are passed over, and lifted
        to who is served in their place: credit for what they didn't get would set others back. Who is held back isn't there.
        `going_on`: since the last call only what it gave was dispatched or ended, so whoever was passed over isn't looked at
        again, though its part may be a little larger now that another has nothing left to wait.
        """
        if not going_on:
            self.take_turns_again()
        tags = {
            name: self._accounts.tiers[name].account.value
            for name, tier in self._tiers.items()
            if tier.waiting > tier.aside_waiting and name not in closed and not self.frozen.has_tier(name)
        }
        while (chosen := pick_tier(tags)) is not None:
            found = self._next_of(chosen, self._tiers[chosen], slots)
            if found is not None:
                return found
            del tags[chosen]
        return None

    def take_turns_again(self) -> None:
        """Whoever was passed over in earlier picks may be served by the next."""
        for name, tier in self._tiers.items():
            if tier.passed or tier.unread:
                self._take_turns_again(name, tier)

    def next_tenants(self, first: Tracked, slots: int, most: int) -> Iterator[Tracked]:
        """What is next of the tenants whose turn comes after that of `first`, which is next in its tier, by their counters.

        Of so many at most, without those who are passed over or must be read again.
        """
        name, tier, seen = first.record.tier, self._tiers[first.record.tier], {first.record.tenant}
        for counter, tenant in islice(in_order(self._by_counter(name, tier)), 4 * most):
            known = tenant in tier.tenants and self._accounts.of(name, tenant).value == counter
            if tenant in seen or not known or tenant in tier.aside:
                continue
            if self.frozen.passes_over(name, tenant, slots):
                continue
            seen.add(tenant)
            if (found := self._first_of(name, tenant)) is not None:
                yield found
            if len(seen) > most:
                return

    def next_is_here(self, tier: str, tenant: str) -> bool:
        """Whether what is next of a tenant is in memory, with its payload."""
        return self._first_of(tier, tenant) is not None

    def spilled_next(self, tier: str, tenant: str) -> Iterator[Stub]:
        """What a tenant has spilled, in the order in which it is its turn by what is known now."""
        firsts, turns = self._spilled.firsts(tier, tenant), dict[int, int]()
        if len(firsts) > 1:
            counters = self._accounts.flows[tier, tenant]
            turns = self._tiers[tier].tenants[tenant].turns_of_spilled(firsts, counters)
        return self._spilled.in_turns(tier, tenant, turns)

    def forget_flows(self) -> None:
        """Drop the counters of flows that the lift would replace anyway."""
        for (tier, tenant), flows in list(self._accounts.flows.items()):
            flows.forget_idle(self._tiers[tier].tenants.get(tenant, NOBODY).flows)
            if not flows.needed:
                del self._accounts.flows[tier, tenant]

    def counter_when_waiting(self, tier: str, tenant: str) -> int:
        """A tenant's counter, lifted as it would be if it began to wait now."""
        counter = self._accounts.seen(tier, tenant).value
        return counter if tenant in self._tiers[tier].tenants else max(counter, self._floor(tier))

    def _lift(self, name: str, tenant: str) -> None:
        self._accounts.lift(name, tenant, self._floor(name))

    def _floor(self, name: str) -> int:
        """To where whoever begins to wait in a tier is lifted."""
        accounts, tier = self._accounts.tiers[name], self._tiers[name]
        self.take_turns_again()
        served = tier.taking_turns > 0
        least = [self._accounts.of(name, self._least_tenant(name, tier)).value] if served else []
        return lifted(0, least, accounts.largest_tag)

    def _comes_back(self, name: str, tenant: str) -> None:
        self._lift(name, tenant)
        self.touch(name, tenant)

    def _queue_for(self, request: Tracked) -> None:
        name, tenant = request.record.tier, request.record.tenant
        tier = self._tiers[name]
        aside = self.frozen.by_name(name, tenant)
        if not aside and tier.waiting == tier.aside_waiting:
            self._accounts.lift_tier(name)
        queue = tier.tenants.get(tenant)
        if queue is None:
            self._lift(name, tenant)
            queue = tier.tenants[tenant] = TenantQueue()
            tier.weight += self._accounts.weight_of(tenant)
            self.touch(name, tenant)
        flow = queue.flows.get(request.flow)
        if flow is None:
            flow = queue.begin(request.flow, self._accounts.flows.get((name, tenant)))
        for each in (flow, queue, tier):
            each.waiting += 1
            each.cost += request.charge
        if aside:
            tier.aside.add(tenant)
            tier.aside_waiting += 1

    def _next_of(self, name: str, tier: TierQueue, slots: int) -> Tracked | None:
        """What is next in a tier; None: all who may be served must be read again first."""
        found = self._least_of(name, tier, slots)
        if found is not None:
            if tier.passed:
                tier.served = self._accounts.of(name, found.record.tenant).value
            return found
        # no other can be served now, as after slots were lost: then it is no limit
        found = next(filter(None, (self._first_of(name, each) for each in tier.passed)), None)
        if found is not None:
            tier.served = self._accounts.of(name, found.record.tenant).value
            self._take_turns_again(name, tier)
        return found

    def _take_turns_again(self, name: str, tier: TierQueue) -> None:
        """Who was passed over for who has been served since then has no credit for that."""
        for tenant in tier.passed:
            self._accounts.lift(name, tenant, tier.served)
        for tenant in (*tier.passed, *tier.unread):
            self.touch(name, tenant)
        tier.passed, tier.unread, tier.served = {}, {}, 0

    def _least_of(self, name: str, tier: TierQueue, slots: int) -> Tracked | None:
        """What is next of the least tenant that may be served; those before it are off the heap, and noted."""
        while tier.taking_turns:
            least = self._least_tenant(name, tier)
            if self.frozen.passes_over(name, least, slots):
                tier.passed[least] = None
            elif (found := self._first_of(name, least)) is not None:
                return found
            else:
                tier.unread[least] = None
            heappop(tier.heap)
        return None

    def _least_tenant(self, name: str, tier: TierQueue) -> str:
        """Of those that aren't set aside. Call only where there is one."""
        heap, counters = self._by_counter(name, tier), self._accounts.tiers[name].tenants
        while True:
            value, tenant = heap[0]
            if tenant in tier.tenants and tenant not in tier.aside and counters[tenant].value == value:
                return tenant
            heappop(heap)

    def _by_counter(self, name: str, tier: TierQueue) -> list[tuple[int, str]]:
        if tier.moved:
            tier.enter_moved(self._accounts.tiers[name].tenants)
        return tier.heap

    def _first_of(self, name: str, tenant: str) -> Tracked | None:
        """What is next of a tenant; None: its payload must be read again first."""
        queue = self._tiers[name].tenants[tenant]
        if queue.turns:
            flow = queue.next_flow(self._accounts.flows[name, tenant])
        else:
            (flow,) = queue.flows
        found = queue.flows[flow].first()
        if found is None or found.received is None:
            return None
        return found if not self._spilled.in_order or self.goes_before_spilled(found) else None
