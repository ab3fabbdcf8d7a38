"""Counters of tiers and tenants: what was settled, and what is charged for attempts in flight.

Used by the fair queue and the core. Invariant: a counter is settled + in flight; `settled` moves only by settlements and
by the lift on becoming backlogged, so that it is a fold over `attempts` and survives a change of owner.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from headrace.scheduler.decisions.pick_next import may_forget, step_of


@dataclass(slots=True)
class Account:
    """One tier's or tenant's counter, in micro service units over its share."""

    share: Fraction
    settled: int = 0
    charged: int = 0
    in_flight: int = 0

    @property
    def value(self) -> int:
        """The counter by which it is picked: the least is served first."""
        return self.settled + self.charged

    def charge(self, cost: int) -> None:
        """An attempt of this cost has been dispatched, or was found in a worker's hands."""
        self.charged += step_of(cost, self.share)
        self.in_flight += 1

    def recharge(self, before: int, after: int) -> None:
        """An attempt has spent more than it was charged."""
        self.charged += step_of(after, self.share) - step_of(before, self.share)

    def refund(self, cost: int) -> None:
        """An attempt ended: its charge is taken back, exactly as it was made."""
        self.charged -= step_of(cost, self.share)
        self.in_flight -= 1

    def settle(self, spent: int) -> None:
        """What an attempt really spent."""
        self.settled += step_of(spent, self.share)

    def lift_to(self, floor: int) -> None:
        """Credit doesn't survive idling: raise the counter to at least this."""
        self.settled += max(0, floor - self.value)


@dataclass(slots=True)
class TierAccounts:
    """A tier's own start tag and its tenants' counters. `largest_tag`: the largest tenant tag dispatched so far."""

    account: Account
    largest_tag: int = 0
    tenants: dict[str, Account] = field(default_factory=dict)


class Accounts:
    """All counters of a pool. `virtual_time` is the start tag of the tier served last; it never falls."""

    def __init__(self, shares: Mapping[str, Fraction], weights: Mapping[str, int]) -> None:
        self.tiers = {name: TierAccounts(Account(share)) for name, share in shares.items()}
        self._weights = weights
        self.virtual_time = 0
        self.changed: set[tuple[str, str]] = set()
        """(tier, tenant) whose settled counter moved since the last checkpoint."""
        self.moved: Callable[[str, str], None] = lambda _tier, _tenant: None
        """Told of every tenant's counter that moved: the queue orders tenants by it."""

    def of(self, tier: str, tenant: str) -> Account:
        """A tenant's counter, made on first use."""
        tenants = self.tiers[tier].tenants
        if tenant not in tenants:
            tenants[tenant] = Account(Fraction(self.weight_of(tenant)))
        return tenants[tenant]

    def seen(self, tier: str, tenant: str) -> Account:
        """The same to look at: not kept where there is none yet."""
        known = self.tiers[tier].tenants.get(tenant)
        return Account(Fraction(self.weight_of(tenant))) if known is None else known

    def weight_of(self, tenant: str) -> int:
        """A tenant's weight; 1 without a policy of its own."""
        return self._weights.get(tenant, 1)

    def dispatch(self, tier: str, tenant: str, charge: int) -> None:
        """Charge an attempt at dispatch, and move virtual time and the largest tag on."""
        accounts, account = self.tiers[tier], self.of(tier, tenant)
        self.virtual_time = max(self.virtual_time, accounts.account.value)
        accounts.largest_tag = max(accounts.largest_tag, account.value)
        self.charge(tier, tenant, charge)

    def charge(self, tier: str, tenant: str, charge: int) -> None:
        """Charge an attempt that another owner dispatched."""
        for account in self._both(tier, tenant):
            account.charge(charge)
        self.moved(tier, tenant)

    def recharge(self, tier: str, tenant: str, before: int, after: int) -> None:
        """Raise the charge of an attempt in flight."""
        for account in self._both(tier, tenant):
            account.recharge(before, after)
        self.moved(tier, tenant)

    def refund(self, tier: str, tenant: str, charge: int) -> None:
        """Take the charge of an attempt back: it has ended, or never was."""
        for account in self._both(tier, tenant):
            account.refund(charge)
        self.moved(tier, tenant)

    def settle(self, tier: str, tenant: str, spent: int) -> None:
        """Book what an attempt really spent."""
        if spent:
            for account in self._both(tier, tenant):
                account.settle(spent)
            self.changed.add((tier, tenant))
            self.moved(tier, tenant)

    def lift(self, tier: str, tenant: str, floor: int) -> None:
        """A tenant becomes backlogged."""
        account = self.of(tier, tenant)
        if account.value < floor:
            account.lift_to(floor)
            self.changed.add((tier, tenant))
            self.moved(tier, tenant)

    def lift_tier(self, tier: str) -> None:
        """A tier becomes backlogged: S = max(S, v)."""
        self.tiers[tier].account.lift_to(self.virtual_time)

    def forget_idle(self, backlogged: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
        """Drop the counters that the lift would replace anyway; yields who was forgotten."""
        for tier, accounts in self.tiers.items():
            for tenant, account in list(accounts.tenants.items()):
                idle = tenant not in backlogged.get(tier, ())
                if idle and may_forget(account.value, accounts.largest_tag, account.in_flight):
                    del accounts.tenants[tenant]
                    self.changed.discard((tier, tenant))
                    yield tier, tenant

    def _both(self, tier: str, tenant: str) -> tuple[Account, Account]:
        return self.tiers[tier].account, self.of(tier, tenant)
