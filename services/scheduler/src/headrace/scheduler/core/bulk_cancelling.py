"""Ends the requests that an operator's order means, a bounded number in each step. Called by core.bulk_orders.

Invariant: once an order is carried out, each request that it means has its end in the log.
"""

from headrace.contracts.commands import CancelReason
from headrace.contracts.control import CancelMatching
from headrace.contracts.failures import FailureKind
from headrace.contracts.selections import Stage
from headrace.scheduler.core.carrying_out import CarryingOut, tell
from headrace.scheduler.core.commands import Commands
from headrace.scheduler.core.endings import MOST_ENDINGS, Endings
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.state.bulk_cancels import BulkCancel

MOST_AT_ONCE = 100
"""Ends begun in one step: one costs a tenth of a millisecond and more."""


class BulkCancelling:
    """What is done by an operator's cancels."""

    def __init__(self, state: PoolState, endings: Endings, commands: Commands) -> None:
        self._state, self._endings, self._commands = state, endings, commands
        self._orders = CarryingOut(
            state, state.bulk_cancels, self._cancel,
            room=lambda: len(endings) < MOST_ENDINGS, most=MOST_AT_ONCE,
        )  # fmt: skip

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at now."""
        return self._orders.under_way

    def keep(self, offset: int, order: CancelMatching) -> None:
        """An order that was just read, and where it stands."""
        cancel = BulkCancel(offset, order)
        self._orders.keep(cancel)
        self._tell("an operator cancels requests", cancel)

    def turn(self) -> None:
        """Go on with the order whose turn it is. Call only past the gate."""
        over = self._orders.turn()
        if over is not None:
            self._tell("requests were cancelled by an operator", over)

    def _cancel(self, cancel: BulkCancel, facts: Facts) -> bool:
        if not cancel.means(facts):
            return False
        if facts.stage is Stage.RUNNING:
            held = self._state.held.of(facts.id)
            if held is not None:
                self._commands.cancel_held(held, CancelReason.OPERATOR)
        elif facts.stage is Stage.QUEUED and (tracked := self._state.tracked.get(facts.id)) is not None:
            cancel.done += 1
            self._endings.cancel(tracked, FailureKind.CANCELLED_BY_OPERATOR)
        return True

    def _tell(self, event: str, cancel: BulkCancel) -> None:
        order, which = cancel.order, cancel.order.selection
        tell(self._state, event, which, stage=which.stage, before_ms=order.before_ms, ended=cancel.done)
