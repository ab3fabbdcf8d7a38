"""How much waits in a pool, of whom, and to what part of the work that entitles: the half of state.fair_queue that tells.

Invariant: what is counted here is what waits, in memory and spilled; a tier or a tenant of whom nothing waits has no part.
"""

from fractions import Fraction
from functools import partial
from itertools import islice

from headrace.contracts.requests import RequestRecord
from headrace.scheduler.decisions.pick_next import OrderKey
from headrace.scheduler.decisions.what_to_spill import Amount
from headrace.scheduler.decisions.who_is_ahead import Line
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.ahead import Before, before, with_turns
from headrace.scheduler.state.flows import Flows
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tenant_queue import NOBODY, FlowQueue, Waiting
from headrace.scheduler.state.tier_queue import TierQueue
from headrace.scheduler.state.tracked import Tracked


class Backlogs:
    """The tiers of one pool, and in them the tenants that wait."""

    def __init__(self, accounts: Accounts, spilled: Spilled) -> None:
        self._accounts, self._spilled = accounts, spilled
        self._tiers = {
            name: TierQueue(tier.moved, partial(accounts.lift_by, name))
            for name, tier in accounts.tiers.items()
        }

    def tenants(self, tier: str) -> int:
        """How many tenants wait in a tier."""
        return len(self._tiers[tier].tenants)

    def others_weight(self, tier: str, tenant: str) -> int:
        """Of all other tenants that wait in a tier, but for those who are held back by name."""
        return self._tiers[tier].others_weight(tenant)

    def backlog(self, tier: str, tenant: str) -> Waiting:
        """What of a tenant waits in a tier."""
        queue = self._tiers[tier].tenants.get(tenant, NOBODY)
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
        """The part of the pool's work that a tenant gets in a tier while it waits there with those who wait now and aren't
        held back.
        """
        others, weight = self.others_weight(tier, tenant), self._accounts.weight_of(tenant)
        return self.share_of_tier(tier) * weight / (others + weight)

    def depth(self, tier: str) -> int:
        """How many wait in a tier."""
        return self._tiers[tier].waiting

    def backlogged(self) -> dict[str, set[str]]:
        """Tenants with waiting requests, by tier."""
        return {name: set(tier.tenants) for name, tier in self._tiers.items()}

    def lines(self, tier: str, most: int) -> list[Line]:
        """The backlogged tenants of a tier; of more than `most` some, evenly spaced, no more than that."""
        queues, due = self._tiers[tier].tenants, self._tiers[tier].turns.lift_due
        some = islice(queues.items(), 0, None, max(1, -(-len(queues) // most)))
        return [
            Line(name, of.account.value + due(name), of.account.share, of.waiting, of.cost)
            for name, of in some
        ]

    def flow_queue_of(self, request: Tracked) -> FlowQueue:
        """Where a request waits, with what else of its flow does."""
        return self._tiers[request.record.tier].tenants[request.record.tenant].flows[request.flow]

    def in_memory(self, tier: str, tenant: str) -> Amount:
        """What of a tenant waits in memory, with its payload."""
        return self._tiers[tier].tenants.get(tenant, NOBODY).in_memory

    def goes_first(self, request: Tracked) -> bool:
        """Whether it goes before all of its flow that is in memory."""
        queue = self._tiers[request.record.tier].tenants.get(request.record.tenant)
        flow = None if queue is None else queue.flows.get(request.flow)
        first = None if flow is None else flow.first()
        return first is None or request.order < first.order

    def goes_before_spilled(self, request: Tracked) -> bool:
        """Whether it goes before all of its flow that is spilled."""
        first = self._spilled.first(request.record.tier, request.record.tenant, request.flow)
        return first is None or request.order < first

    def ahead_of(self, record: RequestRecord, order: OrderKey) -> Before:
        """What of its tenant's requests in its tier goes before such a one with this order; for answers to queries."""
        tier, tenant = record.tier, record.tenant
        queue = self._tiers[tier].tenants.get(tenant, NOBODY)
        counters = self._accounts.flows.get((tier, tenant), Flows())
        flow = counters.flow_now(record.fairness_key, queue.flows)
        here = before(queue.flows.get(flow, FlowQueue()).heap, order)
        spilled = self._spilled.ahead(tier, tenant, flow, order)
        own = Before(here.requests + spilled.requests, here.cost + spilled.cost, here.exact)
        return with_turns(own, queue, counters, flow)
