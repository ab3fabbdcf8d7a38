"""What an operator holds back: tenants, tiers, or the whole pool. Kept by state.held_back, asked by the core.

Invariant: whoever is frozen waits on, and expires as others do; nothing of it is released.
"""

from collections.abc import Iterable
from typing import NamedTuple

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
        return self.has_by_name(tier, tenant) or self.has_tier(tier)

    def has_by_name(self, tier: str, tenant: str) -> bool:
        """Whether an operator named this tenant; its tier may be frozen besides."""
        return Hold(tier, tenant) in self.holds or Hold(None, tenant) in self.holds

    def tenants_of(self, tier: str) -> tuple[str, ...]:
        """Who is frozen in a tier by name, in order."""
        return tuple(
            sorted(
                {hold.tenant for hold in self.holds if hold.tenant is not None and hold.tier in (None, tier)}
            )
        )
