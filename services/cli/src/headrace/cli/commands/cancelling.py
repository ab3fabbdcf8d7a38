"""`headrace queue cancel`: ends requests that wait or run. Offered by commands.queue."""

from headrace.cli.option_groups import with_groups
from headrace.cli.options import Where
from headrace.cli.owner_asking import Looked, Owner
from headrace.cli.queue_filters import Filters, InState, Pool, State
from headrace.cli.queue_orders import Order, Orders, ordered
from headrace.contracts.control import CancelMatching
from headrace.contracts.selections import Found, Selection


@with_groups
def cancel(
    pool: Pool, *, state: InState = State.QUEUED, filters: Filters, options: Orders, where: Where
) -> None:
    """End the requests that fit and were accepted until now; without --yes, only say which they are."""
    ordered(_Cancel(), pool, filters, options, where, state=state)


class _Cancel(Order):
    """Of what fits, to its end."""

    verb = "cancel"

    def record(self, meant: Selection, looked: Looked) -> CancelMatching:
        """What the owner reads."""
        return CancelMatching(selection=meant, before_ms=looked.owner_ms)

    def wait(self, owner: Owner, meant: Selection) -> Found:
        """Until none fits any more."""
        return owner.await_none(meant)

    def told(self, _found: Found, after: Found | None) -> tuple[str]:
        """What became of them."""
        return ("nothing was done: --yes cancels them" if after is None else "they were cancelled",)
