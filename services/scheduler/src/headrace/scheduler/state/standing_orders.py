"""An operator's orders for many requests that aren't carried out yet. Used by state.bulk_cancels and
core.carrying_out.

Invariant: no checkpoint's position passes one of them, so that a successor reads it again; and none means a request that
stands behind the ends of logs that it names (of an older writer: was accepted after its instant), so that whoever reads it
again does nothing to newer ones.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from headrace.bus.messages import Place
from headrace.contracts.control import MoveMatching
from headrace.contracts.selections import Selection
from headrace.scheduler.decisions.does_it_fit import end_in

_KNOWN = 16


class Selects(Protocol):
    """An order that says which requests it means."""

    @property
    def selection(self) -> Selection:
        """Which."""
        ...


O_co = TypeVar("O_co", bound=Selects, covariant=True)


@dataclass(slots=True, eq=False)
class StandingOrder(Generic[O_co]):
    """One of them. `read_to`: where it has been read up to there, a request partition has no further request that is meant;
    None: not told yet. `done`: so many requests has this owner done it to.
    """

    offset: int
    order: O_co
    read_to: dict[Place, int | None] = field(default_factory=dict)
    done: int = 0

    def told_end(self, place: Place, end: int) -> None:
        """A request partition ends here, or later."""
        before = self.order.selection.stands_before
        self.read_to[place] = end if before is None else min(end, end_in(before, *place))

    def all_read(self, read: Callable[[Place], int]) -> bool:
        """Whether all that is meant has been read. `read` tells how far a request partition is."""
        return all(end is not None and read(place) >= end for place, end in self.read_to.items())


S = TypeVar("S", bound=StandingOrder[Selects])


class StandingOrders(Generic[S]):
    """All of one kind in a pool, in the order of their turns. `over`: the last that were carried out, for who asks."""

    def __init__(self) -> None:
        self._standing: dict[int, S] = {}
        self.over: deque[S] = deque(maxlen=_KNOWN)

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[S]:
        return iter(self._standing.values())

    def keep(self, order: S) -> None:
        """A new one."""
        self._standing[order.offset] = order

    def drop(self, order: S) -> None:
        """It is carried out."""
        self.over.append(self._standing.pop(order.offset))

    def put_last(self, order: S) -> None:
        """It has had its turn: one whose requests nobody has read yet holds up no other."""
        self._standing[order.offset] = self._standing.pop(order.offset)

    @property
    def first_offset(self) -> int | None:
        """Where the oldest of them stands."""
        return min(self._standing, default=None)


BulkMove = StandingOrder[MoveMatching]
BulkMoves = StandingOrders[BulkMove]
