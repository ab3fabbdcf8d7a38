"""The requests that wait, in the order in which they are to run: tiers, in them tenants, in them flows, in them requests.

Used by the core. Heaps with lazy deletion: an entry counts only while what it says is still so. A pick is logarithmic in all.
Invariant: a request is picked only in phase WAITING, and each waiting request has exactly one entry that counts, here or in
state.spilled; its charge doesn't change while it waits. Who must be read again first is passed over, and keeps its turn.
"""

from collections.abc import Iterator, Set
from itertools import islice

from headrace.contracts.requests import RequestRecord
from headrace.scheduler.decisions.pick_next import OrderKey, lifted, pick_tier
from headrace.scheduler.decisions.which_flow import NO_KEY
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.backlogs import Backlogs
from headrace.scheduler.state.held_back import HeldBack
from headrace.scheduler.state.packed import Stub
from headrace.scheduler.state.spilled import Spilled, Whose
from headrace.scheduler.state.tenant_queue import NOBODY, TenantQueue
from headrace.scheduler.state.tier_queue import TierQueue
from headrace.scheduler.state.tracked import Phase, Tracked


class FairQueue(Backlogs):
    """Waiting requests of one pool."""

    def __init__(self, accounts: Accounts, spilled: Spilled) -> None:
        super().__init__(accounts, spilled)
        self._entries = 0
        self.frozen = HeldBack(self._tiers, accounts, self._comes_back)
        self.hungry: dict[Whose, None] = {}
        """Tenants that have spilled, and of whom something came or went since somebody looked last."""
        accounts.flow_moved = self.touch_flow

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
        queue = self._queue_for(request)
        self._entries += 1
        queue.enter(request, self._entries)

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
        tier.waiting -= 1
        tier.cost -= request.charge
        queue.left(request)
        if tenant in tier.aside:
            tier.aside_waiting -= 1
        if not queue.waiting:
            tier.end(tenant)
            return
        if self._spilled.in_order and self._spilled.has(name, tenant):
            self.hungry[name, tenant] = None

    def weights_changed(self) -> None:
        """Tenants have other weights, and so other counters."""
        for tier in self._tiers.values():
            tier.reweigh(self._accounts.weight_of)

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
        `going_on`: since the last call only what it gave was dispatched or ended, so who had to be read again still has to.
        """
        tags = {
            name: self._accounts.tiers[name].account.value
            for name, tier in self._tiers.items()
            if tier.waiting > tier.aside_waiting and name not in closed and not self.frozen.has_tier(name)
        }
        while (chosen := pick_tier(tags)) is not None:
            tier = self._tiers[chosen]
            if not going_on:
                tier.turns.look_again()
            found = self._next_of(chosen, tier, slots)
            if found is not None:
                return found
            del tags[chosen]
        return None

    def look_again(self) -> None:
        """Who had to be read again may have been."""
        for tier in self._tiers.values():
            tier.turns.look_again()

    def lift_all(self) -> None:
        """Let the counters of those who were passed over say what they are lifted by: the next owner reads nothing else."""
        for tier in self._tiers.values():
            tier.turns.lift_all()

    def next_tenants(self, first: Tracked, slots: int, most: int) -> Iterator[Tracked]:
        """What is next of the tenants whose turn comes after that of `first`, which is next in its tier, by their counters.

        Of so many at most, without those who are passed over or must be read again.
        """
        name, tier, seen = first.record.tier, self._tiers[first.record.tier], {first.record.tenant}
        for tenant in islice(tier.turns.in_order(), 4 * most):
            if tenant in seen or self.frozen.passes_over(name, tenant, slots):
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
        counter, queue = self._accounts.seen(tier, tenant).value, self._tiers[tier]
        if tenant in queue.tenants:
            return counter + queue.turns.lift_due(tenant)
        return max(counter, self._floor(tier))

    def _lift(self, name: str, tenant: str) -> None:
        self._accounts.lift(name, tenant, self._floor(name))

    def _floor(self, name: str) -> int:
        """To where whoever begins to wait in a tier is lifted."""
        least = self._tiers[name].turns.floor()
        return lifted(0, [] if least is None else [least], self._accounts.tiers[name].largest_tag)

    def _comes_back(self, name: str, tenant: str) -> None:
        self._lift(name, tenant)
        self._tiers[name].bring_back(tenant)

    def _queue_for(self, request: Tracked) -> TenantQueue:
        """Its tenant's, in which it is counted from now on."""
        name, tenant = request.record.tier, request.record.tenant
        tier = self._tiers[name]
        aside = self.frozen.by_name(name, tenant)
        if not aside and tier.waiting == tier.aside_waiting:
            self._accounts.lift_tier(name)
        queue = tier.tenants.get(tenant)
        if queue is None:
            self._lift(name, tenant)
            account, weight = self._accounts.of(name, tenant), self._accounts.weight_of(tenant)
            queue = tier.begin(tenant, account, weight, aside=aside)
        if request.flow not in queue.flows:
            queue.begin(request.flow, self._accounts.flows.get((name, tenant)))
        queue.comes(request)
        tier.waiting += 1
        tier.cost += request.charge
        if aside:
            tier.aside_waiting += 1
        return queue

    def _next_of(self, name: str, tier: TierQueue, slots: int) -> Tracked | None:
        """What is next in a tier; None: all who may be served must be read again first."""
        found = self._least_of(name, tier, slots)
        if found is None and tier.turns.let_all_back():
            found = self._least_of(
                name, tier, None
            )  # no other can be served now, as after slots were lost: it is no limit
        return found

    def _least_of(self, name: str, tier: TierQueue, slots: int | None) -> Tracked | None:
        """What is next of the least tenant that may be served, and needn't be read again."""
        turns = tier.turns
        while (least := turns.least(tier.weight, slots)) is not None:
            found = self._first_of(name, least)
            if found is not None:
                turns.serve(least)
                return found
            turns.must_be_read(least)
        return None

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
