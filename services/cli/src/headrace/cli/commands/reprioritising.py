"""`headrace queue reprioritise`: gives requests another priority among their tenant's own. Offered by commands.queue."""

from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.cli.option_groups import with_groups
from headrace.cli.options import Where
from headrace.cli.owner_asking import Looked, Owner
from headrace.cli.queue_filters import Filters, Pool
from headrace.cli.queue_orders import Order, Orders, ordered
from headrace.contracts.control import Reprioritise
from headrace.contracts.selections import Found, Selection

_MOST = 1_000
"""As callers may say it, either way."""


@with_groups
def reprioritise(
    pool: Pool,
    *,
    priority: Annotated[
        int, typer.Option(min=-_MOST, max=_MOST, help="The new one: greater goes first, 0 is usual.")
    ],
    filters: Filters,
    options: Orders,
    where: Where,
) -> None:
    """Give the requests that fit and were accepted until now another priority; without --yes, only say which they are."""
    ordered(_Reprioritise(priority), pool, filters, options, where)


@dataclass(frozen=True)
class _Reprioritise(Order):
    """To this priority."""

    verb = "reprioritise"
    priority: int

    @property
    def words(self) -> str:
        """As Order.words, and so on."""
        return f"give priority {self.priority} to"

    def record(self, meant: Selection, _looked: Looked) -> Reprioritise:
        """What the owner reads."""
        return Reprioritise(selection=meant, priority=self.priority)

    def wait(self, owner: Owner, meant: Selection) -> Found:
        """Until all have it."""
        return owner.await_priority(meant, self.priority)

    def told(self, _found: Found, after: Found | None) -> tuple[str]:
        """What holds from now on."""
        if after is None:
            return ("nothing was done: --yes changes their priority",)
        return (f"they have priority {self.priority} now, among their tenant's own",)
