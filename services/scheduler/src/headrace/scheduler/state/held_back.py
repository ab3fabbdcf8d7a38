"""Who waits and gets nothing now: frozen by an operator, or over a ceiling. Kept beside the heaps of state.fair_queue.

Invariant: a tenant that is held back by name is set aside in each tier where it waits, so that no pick looks at it; to its
tier and its neighbours it is as one that doesn't wait. When it comes back, it is lifted as one that begins to.
"""

from collections.abc import Callable, Mapping

from headrace.scheduler.decisions.pick_next import most_in_flight
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.frozen import Frozen, Hold
from headrace.scheduler.state.tier_queue import TierQueue


class HeldBack(Frozen):
    """The holds of a pool beside what waits in it. `tiers` are the fair queue's own; `comes_back` lifts a tenant that may be
    served again, and brings it back into its tier.
    """

    def __init__(
        self, tiers: Mapping[str, TierQueue], accounts: Accounts, comes_back: Callable[[str, str], None]
    ) -> None:
        super().__init__()
        self._tiers, self._accounts, self._comes_back = tiers, accounts, comes_back
        self.paced: set[str] = set()
        """Tenants that are over a ceiling of theirs now."""

    def by_name(self, tier: str, tenant: str) -> bool:
        """Whether a tenant is to be set aside in a tier."""
        if not self.holds and not self.paced:
            return False
        return tenant in self.paced or self.has_by_name(tier, tenant)

    def bars(self, tier: str, tenant: str) -> bool:
        """Whether nothing of a tenant is released in a tier, for whatever reason."""
        return tenant in self.paced or self.has(tier, tenant)

    def free_depth(self, tier: str) -> int:
        """How many wait in a tier whom nobody holds back."""
        queue = self._tiers[tier]
        return 0 if self.holds and self.has_tier(tier) else queue.waiting - queue.aside_waiting

    def frozen_depth(self, tier: str) -> int:
        """How many wait in a tier whom an operator holds back."""
        queue = self._tiers[tier]
        if self.has_tier(tier):
            return queue.waiting
        return sum(queue.tenants[name].waiting for name in self.tenants_of(tier) if name in queue.tenants)

    def paced_depth(self, tier: str) -> int:
        """How many wait in a tier whose tenants are over a ceiling."""
        queue = self._tiers[tier]
        return sum(queue.tenants[name].waiting for name in queue.aside & self.paced)

    def passes_over(self, tier: str, tenant: str, slots: int) -> bool:
        """Whether a tenant that waits gets nothing while others of its tier may, since it has its part of the slots."""
        most = most_in_flight(self._accounts.weight_of(tenant), self._tiers[tier].weight, slots)
        return self._accounts.of(tier, tenant).in_flight >= most

    def freeze(self, hold: Hold) -> None:
        """An operator holds these back."""
        self.holds.add(hold)
        self._look(hold.tier, hold.tenant)

    def thaw(self, hold: Hold) -> None:
        """An operator holds these back no longer: neither they nor their tiers have credit for that time."""
        self.holds.discard(hold)
        for name, queue in self._tiers.items():
            if (
                hold.tenant is None
                and queue.waiting
                and hold.tier in (None, name)
                and not self.has_tier(name)
            ):
                self._accounts.lift_tier(name)
        self._look(hold.tier, hold.tenant)

    def pace(self, tenant: str) -> None:
        """It is over a ceiling now."""
        self.paced.add(tenant)
        self._look(None, tenant)

    def go_on(self, tenant: str) -> None:
        """It is below all its ceilings again."""
        self.paced.discard(tenant)
        self._look(None, tenant)

    def _look(self, tier: str | None, tenant: str | None) -> None:
        for name, queue in self._tiers.items():
            if tenant is not None and tenant in queue.tenants and tier in (None, name):
                self._set(name, queue, tenant, aside=self.by_name(name, tenant))

    def _set(self, name: str, queue: TierQueue, tenant: str, *, aside: bool) -> None:
        if aside and tenant not in queue.aside:
            queue.set_aside(tenant)
        elif not aside and tenant in queue.aside:
            if queue.waiting == queue.aside_waiting:
                self._accounts.lift_tier(name)
            self._comes_back(name, tenant)
