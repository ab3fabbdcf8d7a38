"""An operator's orders of new priorities that still mean something. Kept by core.reprioritising; asked by it and core.intake.

Invariant: all of them are in the next checkpoint, so that whoever reads a request again gives it the same priority; one goes
only when all that it means is finished, or when a newer one means all of that.
"""

from collections.abc import Callable

from headrace.contracts.checkpoints import Reprioritised
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.decisions.which_priority import is_over, replaces, which_priority

MOST_ORDERS = 100
"""In a pool: each of them is asked for each request that is read and may be meant."""


class PriorityOrders:
    """All of a pool, by their offsets in `control`."""

    def __init__(self) -> None:
        self.standing: dict[int, Reprioritised] = {}

    def __bool__(self) -> bool:
        return bool(self.standing)

    def keep(self, order: Reprioritised) -> list[int] | None:
        """A new one; which others it makes needless. None: there are too many, and it isn't kept."""
        needless = [offset for offset, other in self.standing.items() if replaces(order, other)]
        if len(self.standing) - len(needless) >= MOST_ORDERS:
            return None
        for offset in needless:
            del self.standing[offset]
        self.standing[order.offset] = order
        return needless

    def priority_of(self, facts: Facts) -> int | None:
        """The priority that an operator wants it to have; None: its own."""
        return which_priority(facts, self.standing.values())

    def forget_over(self, prefix: Callable[[str, int], int | None]) -> list[int]:
        """Drop those that mean nothing any more; which. `prefix` as `is_over` has it."""
        over = [offset for offset, order in self.standing.items() if is_over(order, prefix)]
        for offset in over:
            del self.standing[offset]
        return over
