"""An operator's cancels of many requests that aren't carried out yet. Kept by core.bulk_cancelling; asked by core.releasing.

Invariant: no checkpoint's position passes one of them, so that a successor reads it again; and none means a request that
stands behind the ends of logs that it names (of an older writer: was accepted after its instant), so that whoever reads it
again ends nothing newer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from headrace.bus.messages import Place
from headrace.contracts.control import CancelMatching
from headrace.scheduler.decisions.does_it_fit import Facts, does_it_fit, end_in


@dataclass(slots=True, eq=False)
class BulkCancel:
    """One of them. `read_to`: where it has been read up to there, a request partition has no further request that is meant;
    None: not told yet. `ended`: requests that this owner has ended by it.
    """

    offset: int
    order: CancelMatching
    read_to: dict[Place, int | None] = field(default_factory=dict)
    ended: int = 0

    def means(self, facts: Facts) -> bool:
        """Whether this request is to end."""
        selection = self.order.selection
        if selection.stands_before is None and facts.accepted_ms >= self.order.before_ms:
            return False
        return does_it_fit(selection, facts)

    def told_end(self, place: Place, end: int) -> None:
        """A request partition ends here, or later."""
        before = self.order.selection.stands_before
        self.read_to[place] = end if before is None else min(end, end_in(before, *place))

    def all_read(self, read: Callable[[Place], int]) -> bool:
        """Whether all that is meant has been read. `read` tells how far a request partition is."""
        return all(end is not None and read(place) >= end for place, end in self.read_to.items())


class BulkCancels:
    """All of a pool, in the order of their turns."""

    def __init__(self) -> None:
        self._standing: dict[int, BulkCancel] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[BulkCancel]:
        return iter(self._standing.values())

    def that_means(self, facts: Facts) -> BulkCancel | None:
        """One that means this request."""
        return next((cancel for cancel in self if cancel.means(facts)), None)

    def keep(self, cancel: BulkCancel) -> None:
        """A new one."""
        self._standing[cancel.offset] = cancel

    def drop(self, cancel: BulkCancel) -> None:
        """It is carried out."""
        del self._standing[cancel.offset]

    def put_last(self, cancel: BulkCancel) -> None:
        """It has had its turn: one whose requests nobody has read yet holds up no other."""
        self._standing[cancel.offset] = self._standing.pop(cancel.offset)

    @property
    def first_offset(self) -> int | None:
        """Where the oldest of them stands."""
        return min(self._standing, default=None)
