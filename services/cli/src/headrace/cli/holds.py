"""What `queue-state` tells of whom an operator holds back. Pure; called by `headrace queue`."""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.contracts.observations import MOST_TENANTS_TOLD, QueueState, QueueStateRecord

_SOON_MS = 2_000
"""By then an owner has read what was ordered."""


@dataclass(frozen=True, slots=True)
class Holds:
    """One tier of a pool, as its owner said at `as_of_ms`, Unix ms. `whole`: all of it is held back; `tenants`: those that
    are by name; `depth`: so many requests wait for it.
    """

    tier: str
    whole: bool
    tenants: tuple[str, ...]
    depth: int
    as_of_ms: int

    def obeys(self, tenant: str | None, since_ms: int, *, freezes: bool) -> bool:
        """Whether the owner has said since then that it is so. Whoever is thawed may stay held back by another hold, and of
        more tenants than are told nobody can say: then that it has spoken for some time is enough.
        """
        held = self.whole if tenant is None else tenant in self.tenants
        if self.as_of_ms <= since_ms:
            return False
        return held is freezes or (self._may_differ(tenant, freezes) and self.as_of_ms > since_ms + _SOON_MS)

    def _may_differ(self, tenant: str | None, freezes: bool) -> bool:
        return not freezes or (tenant is not None and len(self.tenants) >= MOST_TENANTS_TOLD)


def holds_of(pool: str, states: Iterable[QueueStateRecord]) -> list[Holds]:
    """The newest word of the highest owner on each tier."""
    newest: dict[str, QueueState] = {}
    for state in states:
        if isinstance(state, QueueState) and state.pool == pool:
            known = newest.get(state.tier)
            if known is None or state.epoch >= known.epoch:
                newest[state.tier] = state
    epoch = max((state.epoch for state in newest.values()), default=0)
    return [
        Holds(state.tier, state.frozen, state.frozen_tenants, state.frozen_depth, state.as_of_ms)
        for state in newest.values() if state.epoch == epoch
    ]  # fmt: skip
