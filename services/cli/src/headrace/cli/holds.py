"""What `queue-state` tells of whom an operator holds back. Pure; called by `headrace queue`."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from headrace.contracts.observations import MOST_TENANTS_TOLD, QueueState, QueueStateRecord

_SOON = timedelta(seconds=2)
"""By then an owner has read what was ordered."""


@dataclass(frozen=True, slots=True)
class Holds:
    """One tier of a pool, as its owner said last, at this offset of `queue-state`. `whole`: all of it is held back;
    `tenants`: those that are by name; `depth`: so many requests wait for it.
    """

    tier: str
    whole: bool
    tenants: tuple[str, ...]
    depth: int
    offset: int

    def obeys(self, tenant: str | None, since: int, waited: timedelta, *, freezes: bool) -> bool:
        """Whether the owner has said at this offset or later that it is so. Whoever is thawed may stay held back by another
        hold, and of more tenants than are told nobody can say: then that it has spoken, and some time has gone by, is enough.
        """
        held = self.whole if tenant is None else tenant in self.tenants
        if self.offset < since:
            return False
        return held is freezes or (self._may_differ(tenant, freezes) and waited > _SOON)

    def _may_differ(self, tenant: str | None, freezes: bool) -> bool:
        return not freezes or (tenant is not None and len(self.tenants) >= MOST_TENANTS_TOLD)


def holds_of(pool: str, states: Iterable[tuple[int, QueueStateRecord]]) -> list[Holds]:
    """The newest word of the highest owner on each tier. `states` with their offsets."""
    newest: dict[str, tuple[int, QueueState]] = {}
    for offset, state in states:
        if isinstance(state, QueueState) and state.pool == pool:
            known = newest.get(state.tier)
            if known is None or state.epoch >= known[1].epoch:
                newest[state.tier] = offset, state
    epoch = max((state.epoch for _, state in newest.values()), default=0)
    return [
        Holds(state.tier, state.frozen, state.frozen_tenants, state.frozen_depth, offset)
        for offset, state in newest.values() if state.epoch == epoch
    ]  # fmt: skip
