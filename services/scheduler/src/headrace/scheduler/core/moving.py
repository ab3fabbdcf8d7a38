"""Passes the requests that an operator's order means on to another pool, as many at once as core.rerouting takes. Called by
core.bulk_orders.

Invariant: an order stands, and no checkpoint passes it, until a whole pass that began with all of them read finds none that
may still go: each has gone then, or its intent is in the checkpoint that passes the order. So a successor goes on.
"""

from functools import partial

from headrace.bus.messages import Received
from headrace.contracts.control import MoveMatching
from headrace.contracts.failures import FailureKind
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.rerouting import Rerouting
from headrace.scheduler.core.walking import Walk
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.state.standing_orders import BulkMove

_LOOKS, _AT_ONCE = 5, 100
"""Pieces of a pass in one step, and requests in a piece."""
_AGAIN_MS = 200
"""Between two passes."""


class Moving:
    """Works the orders off, one after the other."""

    def __init__(self, state: PoolState, endings: Endings, rerouting: Rerouting) -> None:
        self._state, self._endings, self._rerouting = state, endings, rerouting
        self._walk: Walk | None = None
        self._whole = False
        """Whether the pass under way began with all that is meant read."""
        self._left = 0
        """How many it has found that may go."""
        self._not_before_ms = -(10**12)

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at now."""
        return self._walk is not None and self._rerouting.room > 0

    def keep(self, received: Received, order: MoveMatching) -> None:
        """An order that was just read."""
        state, which = self._state, order.selection
        if which.stands_before is None:
            detail = "It doesn't say before which offsets it means requests."
            self._endings.bury(received, FailureKind.LYING_RECORD, detail)
            return
        move = BulkMove(received.offset, order)
        for place, partition in state.partitions.by_place.items():
            if which.tier in (None, partition.tier):
                move.read_to[place] = None
                state.barriers.want(place, partial(move.told_end, place))
        state.bulk_moves.keep(move)
        self._tell("an operator moves requests", move)

    def turn(self) -> None:
        """Go on with the order whose turn it is. Call only past the gate."""
        move = next(iter(self._state.bulk_moves), None)
        if move is None or not self._rerouting.room:
            return
        walk = self._walk or self._begin(move)
        if walk is None:
            return
        for _ in range(_LOOKS):
            for facts in walk.step(_AT_ONCE):
                self._take(move, facts)
            if not self._rerouting.room:
                break
        if walk.over:
            self._passed(move)

    def _begin(self, move: BulkMove) -> Walk | None:
        state = self._state
        if state.now.boot_ms < self._not_before_ms:
            return None
        self._whole = move.all_read(lambda place: state.partitions.by_place[place].next_offset)
        self._left, self._walk = 0, Walk(state, move.order.selection)
        return self._walk

    def _take(self, move: BulkMove, facts: Facts) -> None:
        to = move.order.to
        model = self._rerouting.model_there(facts, to, move.order.model)
        if model is None:
            return
        self._left += 1
        if self._rerouting.room and (tracked := self._state.tracked.get(facts.id)) is not None:
            move.done += self._rerouting.begin(tracked, to, model)

    def _passed(self, move: BulkMove) -> None:
        state, self._walk = self._state, None
        if self._left or not self._whole:
            state.bulk_moves.put_last(move)
            self._not_before_ms = state.now.boot_ms + _AGAIN_MS
            return
        state.bulk_moves.drop(move)
        self._tell("requests were moved by an operator", move)

    def _tell(self, event: str, move: BulkMove) -> None:
        which = move.order.selection
        self._state.notice(
            event, to=move.order.to, tier=which.tier, tenant=which.tenant, model=which.model, id_prefix=which.id_prefix,
            accepted_before_ms=which.accepted_before_ms, moved=move.done,
        )  # fmt: skip
