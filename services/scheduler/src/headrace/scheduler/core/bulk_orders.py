"""An operator's orders for many requests at once. Called by core.control_log for each that is read, and in each step.

Invariant: a step looks at a bounded number of requests for each kind of order, however many there are.
"""

from typing import assert_never

from headrace.bus.messages import Received
from headrace.contracts.control import CancelMatching, MoveMatching, Reprioritise
from headrace.contracts.failures import FailureKind
from headrace.scheduler.core.bulk_cancelling import BulkCancelling
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.moving import Moving
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.reprioritising import Reprioritising
from headrace.scheduler.core.rerouting import Rerouting

BulkOrder = CancelMatching | MoveMatching | Reprioritise


class BulkOrders:
    """All kinds of them."""

    def __init__(self, state: PoolState, endings: Endings, commands: Commands, rerouting: Rerouting) -> None:
        self._endings = endings
        self._moving, self._reprioritising = Moving(state, rerouting), Reprioritising(state)
        self._cancelling = BulkCancelling(state, endings, commands)

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at now."""
        return any(each.under_way for each in (self._reprioritising, self._cancelling, self._moving))

    def take(self, received: Received, order: BulkOrder) -> None:
        """An order that was just read. Only a cancel may mean requests by an instant, as older writers say it."""
        offset = received.offset
        match order:
            case CancelMatching():
                self._cancelling.keep(offset, order)
            case MoveMatching() | Reprioritise() if order.selection.stands_before is None:
                detail = "It doesn't say before which offsets it means requests."
                self._endings.bury(received, FailureKind.LYING_RECORD, detail)
            case MoveMatching():
                self._moving.keep(offset, order)
            case Reprioritise():
                self._reprioritising.keep(offset, order)
            case _:
                assert_never(order)

    def turn(self) -> None:
        """Go on with each. Call only past the gate."""
        self._reprioritising.turn()
        self._cancelling.turn()
        self._moving.turn()
