"""Carries out the orders of one kind that stand, one after the other: does something to each request that one means, until
none is left. Used by core.bulk_cancelling and core.moving.

Invariant: an order stands, and no checkpoint passes it, until a whole pass that began with all of them read finds none left.
So a successor that reads it again goes on where the owner was.
"""

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from headrace.contracts.selections import Selection
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.walking import Walk
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.state.standing_orders import Selects, StandingOrder, StandingOrders

_LOOKS, _AT_ONCE = 5, 100
"""Pieces of a pass in one step, and requests in a piece: looking costs microseconds."""
_PAUSE_MS = 200
"""Between two passes: what is left runs, or is on its way, and ends by itself."""

S = TypeVar("S", bound=StandingOrder[Selects])


class CarryingOut(Generic[S]):
    """`do` gets each request that an order selects: it does to it what the order wants, where that can be done now, counts
    that in `done`, and says whether another pass must look at the request. `room`: whether more can be done now. `most`: so
    many in one step; the others wait for the next.
    """

    def __init__(
        self,
        state: PoolState,
        standing: StandingOrders[S],
        do: Callable[[S, Facts], bool],
        *,
        room: Callable[[], bool],
        most: int,
    ) -> None:
        self._state, self._standing, self._do = state, standing, do
        self._room, self._most = room, most
        self._walk: Walk | None = None
        self._whole = False
        """Whether the pass under way began with all that is meant read."""
        self._left = 0
        """How many it has found so far."""
        self._not_before_ms = -(10**12)

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at now."""
        return self._walk is not None and self._room()

    def keep(self, order: S) -> None:
        """One that was just read."""
        state, tier = self._state, order.order.selection.tier
        for place, partition in state.partitions.by_place.items():
            if tier in (None, partition.tier):
                order.read_to[place] = None
                # what was accepted before the order stands before a barrier that is sent now
                state.barriers.want(place, partial(order.told_end, place))
        self._standing.keep(order)

    def turn(self) -> S | None:
        """Go on with the order whose turn it is; which is carried out by that. Call only past the gate."""
        order = next(iter(self._standing), None)
        if order is None or not self._room():
            return None
        walk = self._walk or self._begin(order)
        if walk is None:
            return None
        enough = order.done + self._most
        for _ in range(_LOOKS):
            for facts in walk.step(_AT_ONCE):
                self._left += self._do(order, facts)
            if order.done >= enough or not self._room():
                break
        return self._passed(order) if walk.over else None

    def _begin(self, order: S) -> Walk | None:
        state = self._state
        if state.now.boot_ms < self._not_before_ms:
            return None
        self._whole = order.all_read(lambda place: state.partitions.by_place[place].next_offset)
        self._left, self._walk = 0, Walk(state, order.order.selection)
        return self._walk

    def _passed(self, order: S) -> S | None:
        self._walk = None
        if self._left or not self._whole:
            self._standing.put_last(order)
            self._not_before_ms = self._state.now.boot_ms + _PAUSE_MS
            return None
        self._standing.drop(order)
        return order


def tell(state: PoolState, event: str, which: Selection, **fields: str | int | None) -> None:
    """Tell an operator what becomes of an order, and which requests it means."""
    state.notice(
        event, warning=False, tier=which.tier, tenant=which.tenant, model=which.model, id_prefix=which.id_prefix,
        accepted_before_ms=which.accepted_before_ms, **fields,
    )  # fmt: skip
