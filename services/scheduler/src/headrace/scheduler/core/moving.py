"""Passes the requests that an operator's order means on to another pool, as many at once as core.rerouting takes. Called by
core.bulk_orders.

Invariant: once an order is carried out, each request that it means and that may go has gone, or its intent is in the
checkpoint that passes the order.
"""

from headrace.contracts.control import MoveMatching
from headrace.scheduler.core.carrying_out import CarryingOut, tell
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.rerouting import MOST_REROUTES, Rerouting
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.state.standing_orders import BulkMove


class Moving:
    """What is done by an operator's moves."""

    def __init__(self, state: PoolState, rerouting: Rerouting) -> None:
        self._state, self._rerouting = state, rerouting
        self._orders = CarryingOut(
            state, state.bulk_moves, self._move, room=lambda: rerouting.room > 0, most=MOST_REROUTES
        )

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at now."""
        return self._orders.under_way

    def keep(self, offset: int, order: MoveMatching) -> None:
        """An order that was just read, and where it stands."""
        move = BulkMove(offset, order)
        self._orders.keep(move)
        self._tell("an operator moves requests", move)

    def turn(self) -> None:
        """Go on with the order whose turn it is. Call only past the gate."""
        over = self._orders.turn()
        if over is not None:
            self._tell("requests were moved by an operator", over)

    def _move(self, move: BulkMove, facts: Facts) -> bool:
        to = move.order.to
        model = self._rerouting.model_there(facts, to, move.order.model)
        if model is None:
            return False
        if self._rerouting.room and (tracked := self._state.tracked.get(facts.id)) is not None:
            move.done += self._rerouting.begin(tracked, to, model)
        return True

    def _tell(self, event: str, move: BulkMove) -> None:
        tell(self._state, event, move.order.selection, to=move.order.to, moved=move.done)
