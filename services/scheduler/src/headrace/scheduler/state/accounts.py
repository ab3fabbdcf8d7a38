"""Counters of tiers, of tenants and of their flows: what was settled, and what is charged for attempts in flight.

Used by the fair queue and the core. Invariant: a counter is settled + in flight; `settled` moves only by settlements and
by the lift on becoming backlogged, so that it is a fold over `attempts`; tiers' and tenants' survive a change of owner.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from headrace.scheduler.decisions.pick_next import may_forget
from headrace.scheduler.state.account import Account
from headrace.scheduler.state.flows import Flows


@dataclass(slots=True)
class TierAccounts:
    """A tier's own start tag and its tenants' counters. `largest_tag`: the largest tenant tag dispatched so far; `moved`:
    whose counters have moved since the queue, which orders tenants by them, looked last.
    """

    account: Account
    largest_tag: int = 0
    tenants: dict[str, Account] = field(default_factory=dict)
    moved: dict[str, None] = field(default_factory=dict)


class Accounts:
    """All counters of a pool. `virtual_time` is the start tag of the tier served last; it never falls."""

    def __init__(self, shares: Mapping[str, Fraction], weights: Mapping[str, int]) -> None:
        self.tiers = {name: TierAccounts(Account(share)) for name, share in shares.items()}
        self._weights = weights
        self.virtual_time = 0
        self.changed: set[tuple[str, str]] = set()
        """(tier, tenant) whose settled counter moved since the last checkpoint."""
        self.flows: dict[tuple[str, str], Flows] = {}
        """By tier and tenant, of those that send fairness keys. Wherever a `flow` is given below, it is charged as well."""
        self.flow_moved: Callable[[str, str, int], None] = lambda _tier, _tenant, _flow: None
        """Told of every flow's counter that moved."""

    def of(self, tier: str, tenant: str) -> Account:
        """A tenant's counter, made on first use."""
        tenants = self.tiers[tier].tenants
        known = tenants.get(tenant)
        if known is None:
            known = tenants[tenant] = Account(Fraction(self.weight_of(tenant)))
        return known

    def seen(self, tier: str, tenant: str) -> Account:
        """The same to look at: not kept where there is none yet."""
        known = self.tiers[tier].tenants.get(tenant)
        return Account(Fraction(self.weight_of(tenant))) if known is None else known

    def weight_of(self, tenant: str) -> int:
        """A tenant's weight; 1 without a policy of its own."""
        return self._weights.get(tenant, 1)

    def flows_of(self, tier: str, tenant: str) -> Flows:
        """The counters of a tenant's flows, made on first use; with the tenant's own, which they are forgotten with."""
        if (tier, tenant) not in self.flows:
            self.of(tier, tenant)
            self.flows[tier, tenant] = Flows()
        return self.flows[tier, tenant]

    def dispatch(self, tier: str, tenant: str, charge: int, flow: int | None = None) -> None:
        """Charge an attempt at dispatch, and move virtual time and the largest tags on."""
        accounts = self.tiers[tier]
        self.virtual_time = max(self.virtual_time, accounts.account.value)
        accounts.largest_tag = max(accounts.largest_tag, self.of(tier, tenant).value)
        if flow is not None:
            self.flows_of(tier, tenant).dispatch(flow)
        self.charge(tier, tenant, charge, flow)

    def charge(self, tier: str, tenant: str, charge: int, flow: int | None = None) -> None:
        """Charge an attempt that another owner dispatched."""
        self.tiers[tier].account.charge(charge)
        self._moving(tier, tenant).charge(charge)
        if flow is not None:
            self.charge_flow(tier, tenant, charge, flow)

    def charge_flow(self, tier: str, tenant: str, charge: int, flow: int) -> None:
        """Charge a flow for an attempt of which nobody knew the key when its tenant was charged."""
        self.flows_of(tier, tenant).of(flow).charge(charge)
        self.flow_moved(tier, tenant, flow)

    def recharge(self, tier: str, tenant: str, before: int, after: int, flow: int | None = None) -> None:
        """Raise the charge of an attempt in flight."""
        self.tiers[tier].account.recharge(before, after)
        self._moving(tier, tenant).recharge(before, after)
        if flow is not None:
            self.flows_of(tier, tenant).of(flow).recharge(before, after)
            self.flow_moved(tier, tenant, flow)

    def refund(self, tier: str, tenant: str, charge: int, flow: int | None = None) -> None:
        """Take the charge of an attempt back: it has ended, or never was."""
        self.tiers[tier].account.refund(charge)
        self._moving(tier, tenant).refund(charge)
        if flow is not None:
            self.flows_of(tier, tenant).of(flow).refund(charge)
            self.flow_moved(tier, tenant, flow)

    def settle(self, tier: str, tenant: str, spent: int, flow: int | None = None) -> None:
        """Book what an attempt really spent."""
        if not spent:
            return
        self.tiers[tier].account.settle(spent)
        self._moving(tier, tenant).settle(spent)
        self.changed.add((tier, tenant))
        if flow is not None:
            self.flows_of(tier, tenant).of(flow).settle(spent)
            self.flow_moved(tier, tenant, flow)

    def lift(self, tier: str, tenant: str, floor: int) -> None:
        """A tenant becomes backlogged."""
        self.lift_by(tier, tenant, floor - self.of(tier, tenant).value)

    def lift_by(self, tier: str, tenant: str, by: int) -> None:
        """A tenant has no credit for so much; nothing where that is less than 1. The queue does this, so it isn't told."""
        if by > 0:
            self.of(tier, tenant).settled += by
            self.changed.add((tier, tenant))

    def lift_tier(self, tier: str) -> None:
        """A tier becomes backlogged: S = max(S, v)."""
        self.tiers[tier].account.lift_to(self.virtual_time)

    def adopt(
        self,
        shares: Mapping[str, Fraction],
        weights: Mapping[str, int],
        charges: Iterable[tuple[str, str, int]],
    ) -> None:
        """Tiers and tenants have other shares from now on. `charges`: tier, tenant and charge of all that is in flight.

        What was settled stays: it is what a new owner with these shares would begin with.
        """
        self._weights = weights
        of_tier, of_tenant = defaultdict[str, list[int]](list), defaultdict[tuple[str, str], list[int]](list)
        for tier, tenant, charge in charges:
            of_tier[tier].append(charge)
            of_tenant[tier, tenant].append(charge)
        for name, accounts in self.tiers.items():
            accounts.account.reshare(shares[name], of_tier[name])
            for tenant, account in accounts.tenants.items():
                account.reshare(Fraction(self.weight_of(tenant)), of_tenant[name, tenant])

    def forget_idle(self, backlogged: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
        """Drop the counters that the lift would replace anyway; yields who was forgotten."""
        for tier, accounts in self.tiers.items():
            for tenant, account in list(accounts.tenants.items()):
                idle = tenant not in backlogged.get(tier, ())
                if idle and may_forget(account.value, accounts.largest_tag, account.in_flight):
                    del accounts.tenants[tenant]
                    self.changed.discard((tier, tenant))
                    self.flows.pop((tier, tenant), None)
                    yield tier, tenant

    def _moving(self, tier: str, tenant: str) -> Account:
        """A tenant's counter, which moves now."""
        accounts = self.tiers[tier]
        accounts.moved[tenant] = None
        return accounts.tenants.get(tenant) or self.of(tier, tenant)
