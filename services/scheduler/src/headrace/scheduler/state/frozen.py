"""What an operator holds back: tenants, tiers, or the whole pool. Asked by state.fair_queue and the core.

Invariant: whoever is frozen waits on, and expires as others do; nothing of it is released.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace.scheduler.decisions.pick_next import most_in_flight
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.tenant_queue import TierQueue

MOST_HOLDS = 1_000
"""In a pool: a checkpoint writes them in one record."""


class Hold(NamedTuple):
    """All requests of a tier, of a tenant, of a tenant in a tier; both None: of the pool."""

    tier: str | None
    tenant: str | None


class Frozen:
    """All holds of a pool."""

    def __init__(self, holds: Iterable[Hold] = ()) -> None:
        self.holds = set(holds)

    def __bool__(self) -> bool:
        return bool(self.holds)

    def has_tier(self, tier: str) -> bool:
        """Whether a whole tier is frozen."""
        return bool(self.holds) and (Hold(tier, None) in self.holds or Hold(None, None) in self.holds)

    def has(self, tier: str, tenant: str) -> bool:
        """Whether a tenant's requests in a tier are frozen, for whatever reason."""
        if not self.holds:
            return False
        own = Hold(tier, tenant) in self.holds or Hold(None, tenant) in self.holds
        return own or self.has_tier(tier)

    def tenants_of(self, tier: str) -> tuple[str, ...]:
        """Who is frozen in a tier by name, in order."""
        return tuple(
            sorted(
                {hold.tenant for hold in self.holds if hold.tenant is not None and hold.tier in (None, tier)}
            )
        )


class HeldBack(Frozen):
    """The holds of a pool beside what waits in it. `tiers` are the fair queue's own."""

    def __init__(self, tiers: Mapping[str, TierQueue], accounts: Accounts) -> None:
        super().__init__()
        self._tiers, self._accounts = tiers, accounts

    def free_depth(self, tier: str) -> int:
        """How many wait in a tier whom no operator holds back."""
        queue = self._tiers[tier]
        if not self.holds:
            return queue.waiting
        if self.has_tier(tier):
            return 0
        held = (queue.tenants[name].waiting for name in self.tenants_of(tier) if name in queue.tenants)
        return queue.waiting - sum(held)

    def passes_over(self, tier: str, tenant: str, slots: int) -> bool:
        """Whether a tenant that waits gets nothing while others of its tier may: frozen, or with its part of the slots."""
        if self.has(tier, tenant):
            return True
        most = most_in_flight(self._accounts.weight_of(tenant), self._tiers[tier].weight, slots)
        return self._accounts.of(tier, tenant).in_flight >= most

    def thawed(self, hold: Hold) -> None:
        """An operator holds these back no longer: their tiers have no credit for that time."""
        for name, queue in self._tiers.items():
            waits = queue.waiting if hold.tenant is None else hold.tenant in queue.tenants
            if waits and hold.tier in (None, name) and not self.has_tier(name):
                self._accounts.lift_tier(name)
