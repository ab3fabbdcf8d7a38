"""An operator's cancels of many requests that aren't carried out yet. Kept by core.bulk_cancelling; asked by
core.releasing.
"""

from headrace.contracts.control import CancelMatching
from headrace.scheduler.decisions.does_it_fit import Facts, does_it_fit
from headrace.scheduler.state.standing_orders import StandingOrder, StandingOrders


class BulkCancel(StandingOrder[CancelMatching]):
    """One of them. `done`: requests that this owner has ended by it."""

    def means(self, facts: Facts) -> bool:
        """Whether this request is to end."""
        selection = self.order.selection
        if selection.stands_before is None and facts.accepted_ms >= self.order.before_ms:
            return False
        return does_it_fit(selection, facts)


class BulkCancels(StandingOrders[BulkCancel]):
    """All of a pool."""

    def that_means(self, facts: Facts) -> BulkCancel | None:
        """One that means this request."""
        return next((cancel for cancel in self if cancel.means(facts)), None)
