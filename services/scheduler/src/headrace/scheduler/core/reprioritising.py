"""Gives requests the priority that an operator wants them to have. Called by core.bulk_orders; what is read after the order
gets it from core.intake.

Invariant: an order is kept with the checkpoint that passes it; so each request that it means has its priority from when the
pass over memory is over, whoever owns the pool, however often it is read again. Order inside a tenant is all that it changes.
"""

from collections import deque

import msgspec

from headrace.contracts.checkpoints import Reprioritised
from headrace.contracts.control import Reprioritise
from headrace.scheduler.core.carrying_out import tell
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.walking import Walk
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.decisions.pick_next import with_priority
from headrace.scheduler.state.priority_orders import MOST_ORDERS
from headrace.scheduler.state.tracked import Phase

LOOKS = 500
"""Requests in one step: some milliseconds."""


class Reprioritising:
    """Works the orders off, one after the other."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._walks: deque[Walk] = deque()

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at now."""
        return bool(self._walks)

    def keep(self, offset: int, order: Reprioritise) -> None:
        """An order that was just read, and where it stands."""
        state, which = self._state, order.selection
        kept = Reprioritised(offset=offset, selection=which, priority=order.priority)
        needless = state.priority_orders.keep(kept)
        if needless is None:
            state.notice(
                "nothing more is reprioritised: too many orders stand", warning=True, orders=MOST_ORDERS
            )
            return
        state.dirty.update(f"reprioritised/{offset}" for offset in (kept.offset, *needless))
        self._walks.append(Walk(state, msgspec.structs.replace(which, stage=None)))
        tell(state, "an operator reprioritises requests", which, priority=order.priority)

    def turn(self) -> None:
        """Go on with the order whose turn it is."""
        if not self._walks:
            return
        for facts in self._walks[0].step(LOOKS):
            self._apply(facts)
        if self._walks[0].over:
            self._walks.popleft()

    def _apply(self, facts: Facts) -> None:
        state, priority = self._state, self._state.priority_orders.priority_of(facts)
        if priority is None:
            return
        tracked = state.tracked.in_memory(facts.id)
        if tracked is None:
            if state.spilled.reprioritise(facts.id, priority):
                state.queue.hungry[facts.tier, facts.tenant] = None
            return
        order = with_priority(tracked.order, priority)
        if order == tracked.order:
            return
        if tracked.phase is Phase.WAITING:
            state.queue.reorder(tracked, order)
        else:
            tracked.order = order
