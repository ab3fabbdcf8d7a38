"""Ends the requests that an operator's order means, a bounded number in each step. Called by core.bulk_orders.

Invariant: an order stands, and no checkpoint passes it, until a whole pass that began with all of them read finds none: then
each has its end in the log. So a successor that reads it again goes on where the owner was.
"""

from functools import partial

from headrace.bus.messages import Received
from headrace.contracts.commands import CancelReason
from headrace.contracts.control import CancelMatching
from headrace.contracts.failures import FailureKind
from headrace.contracts.selections import Stage
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.endings import MOST_ENDINGS, Endings
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.walking import Walk
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.state.bulk_cancels import BulkCancel
from headrace.scheduler.state.tracked import Tracked

_LOOKS, _AT_ONCE = 5, 100
"""Pieces of a pass in one step, and requests in a piece: looking costs microseconds."""
_ENDS = 100
"""After so many in one step the others wait for the next: an end costs a tenth of a millisecond and more."""
_AGAIN_MS = 200
"""Between two passes."""


class BulkCancelling:
    """Works the orders off, one after the other."""

    def __init__(self, state: PoolState, endings: Endings, commands: Commands) -> None:
        self._state, self._endings, self._commands = state, endings, commands
        self._walk: Walk | None = None
        self._whole = False
        """Whether the pass under way began with all that is meant read."""
        self._left = 0
        """How many it has found so far."""
        self._not_before_ms = -(10**12)

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at now."""
        return self._walk is not None

    def keep(self, received: Received, order: CancelMatching) -> None:
        """An order that was just read."""
        state, tier = self._state, order.selection.tier
        cancel = BulkCancel(received.offset, order)
        for place, partition in state.partitions.by_place.items():
            if tier in (None, partition.tier):
                cancel.read_to[place] = None
                # what was accepted before the order stands before a barrier that is sent now
                state.barriers.want(place, partial(cancel.told_end, place))
        state.bulk_cancels.keep(cancel)
        self._tell("an operator cancels requests", cancel)

    def turn(self) -> None:
        """Go on with the order whose turn it is. Call only past the gate."""
        cancel = next(iter(self._state.bulk_cancels), None)
        if cancel is None or len(self._endings) >= MOST_ENDINGS:
            return
        walk = self._walk or self._begin(cancel)
        if walk is None:
            return
        before = cancel.done
        for _ in range(_LOOKS):
            for facts in walk.step(_AT_ONCE):
                self._take(cancel, facts)
            if cancel.done - before >= _ENDS:
                break
        if walk.over:
            self._passed(cancel)

    def _begin(self, cancel: BulkCancel) -> Walk | None:
        state = self._state
        if state.now.boot_ms < self._not_before_ms:
            return None
        self._whole = cancel.all_read(lambda place: state.partitions.by_place[place].next_offset)
        self._left, self._walk = 0, Walk(state, cancel.order.selection)
        return self._walk

    def _take(self, cancel: BulkCancel, facts: Facts) -> None:
        if not cancel.means(facts):
            return
        self._left += 1
        if facts.stage is Stage.RUNNING:
            held = self._state.held.of(facts.id)
            if held is not None:
                self._commands.cancel_held(held, CancelReason.OPERATOR)
        elif facts.stage is Stage.QUEUED and (tracked := self._state.tracked.get(facts.id)) is not None:
            self._end(cancel, tracked)

    def _end(self, cancel: BulkCancel, tracked: Tracked) -> None:
        cancel.done += 1
        self._endings.cancel(tracked, FailureKind.CANCELLED_BY_OPERATOR)

    def _passed(self, cancel: BulkCancel) -> None:
        state, self._walk = self._state, None
        if self._left or not self._whole:
            state.bulk_cancels.put_last(cancel)
            self._not_before_ms = state.now.boot_ms + _AGAIN_MS
            return
        state.bulk_cancels.drop(cancel)
        self._tell("requests were cancelled by an operator", cancel)

    def _tell(self, event: str, cancel: BulkCancel) -> None:
        order, which = cancel.order, cancel.order.selection
        self._state.notice(
            event, tier=which.tier, tenant=which.tenant, model=which.model, id_prefix=which.id_prefix,
            stage=which.stage, accepted_before_ms=which.accepted_before_ms, before_ms=order.before_ms, ended=cancel.done,
        )  # fmt: skip
