"""Whose turn it is among a tier's tenants: of those that may be served, the one's with the least counter.

Used by state.fair_queue. Invariant: a tenant that takes turns is in the heap at its counter; or it `moved` and is entered
anew before anybody is picked; or it is `unread`: what is next of it must be read again first; or it is `over` its part of
the slots. Who is over is looked at again only once its own counter moves or the limit rises: to take it off and put it back
at each pick would cost more than the pick.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from heapq import heapify, heappop, heappush

from headrace.scheduler.decisions.pick_next import most_in_flight
from headrace.scheduler.state.in_order import in_order
from headrace.scheduler.state.tenant_queue import TenantQueue

_SLACK = 64


class Turns:
    """Of one tier. `moved`: whose counters have moved since they were entered, and perhaps others; filled by who moves them.
    `lift` raises a tenant's counter by so much.
    """

    def __init__(self, moved: dict[str, None], lift: Callable[[str, int], None]) -> None:
        self._moved, self._lift = moved, lift
        self._queues: dict[str, TenantQueue] = {}
        self._heap: list[tuple[int, str]] = []
        self._unread: dict[str, None] = {}
        self._over: dict[str, tuple[int, int]] = {}
        """With the counter at which each was passed over, and how many had been served by then."""
        self._first_back = (0, 1)
        """Attempts in flight, and weight: while the limit keeps such a one out, it keeps out all who are over."""
        self._served = self._servings = 0
        """The counter at which the last one was served, and how many were."""

    def enter(self, name: str, queue: TenantQueue) -> None:
        """It takes turns from now on."""
        self._queues[name] = queue
        self._moved[name] = None

    def leave(self, name: str) -> None:
        """It takes none: nothing of it waits any more, or it is set aside."""
        queue = self._queues.pop(name, None)
        if queue is not None:
            queue.entered_at = None
            self._unread.pop(name, None)
            self._over.pop(name, None)

    def least(self, weight: int, slots: int | None) -> str | None:
        """Whose turn it is; None: nobody may be served of those who aren't unread.

        `weight`: of all tenants of the tier that wait; `slots`: attempts that the pool may hold, None: there is no limit.
        """
        if self._over and slots is not None:
            self._let_back_below(weight, slots)
        if self._moved:
            self._enter_moved()
        while (name := self._first()) is not None:
            queue = self._queues[name]
            if slots is None or queue.account.in_flight < most_in_flight(queue.weight, weight, slots):
                return name
            self._pass_over(name)
        return None

    def serve(self, name: str) -> None:
        """It is served in the place of all who are over."""
        self._served = self._queues[name].account.value
        self._servings += 1

    def must_be_read(self, name: str) -> None:
        """It is its turn, but its next must be read again first: others go until somebody looks again."""
        self._off_the_heap(name)
        self._unread[name] = None

    def look_again(self) -> None:
        """Who was unread may have been read: its turn is where it was."""
        if self._unread:
            self._moved.update(self._unread)
            self._unread = {}

    def let_all_back(self) -> bool:
        """Nobody is over until it is looked at again; whether anybody was."""
        found = list(self._over)
        for name in found:
            self._let_back(name)
        return bool(found)

    def lift_due(self, name: str) -> int:
        """How far those who were served in its place have gone beyond it: it is lifted by that once it has its turn again, or
        its credit for what it couldn't have would set others back.
        """
        if name not in self._over:
            return 0
        passed_at, servings = self._over[name]
        return 0 if servings == self._servings else max(0, self._served - passed_at)

    def lift_all(self) -> None:
        """Let the counters of those who are over say what is due."""
        for name, (passed_at, servings) in self._over.items():
            due = self.lift_due(name)
            if due:
                self._over[name] = passed_at + due, servings
                self._lift(name, due)

    def floor(self) -> int | None:
        """The least counter in the heap; of those who are over where it is empty; None: nobody takes turns."""
        self.look_again()
        self._enter_moved()
        least = self._first()
        if least is not None:
            return self._queues[least].account.value
        return min(
            (self._queues[each].account.value + self.lift_due(each) for each in self._over), default=None
        )

    def in_order(self) -> Iterator[str]:
        """Those in the heap, the least counter first; somebody may come twice. Nothing may change meanwhile."""
        self._enter_moved()
        for value, name in in_order(self._heap):
            queue = self._queues.get(name)
            if queue is not None and queue.entered_at == value:
                yield name

    def those_over(self) -> Iterator[str]:
        """Who was passed over for having its part of the slots, and wasn't looked at since."""
        return iter(self._over)

    def enter_all(self) -> None:
        """Any counter may have moved, and any limit."""
        self.let_all_back()
        self._moved.update(dict.fromkeys(self._queues))

    def _enter_moved(self) -> None:
        for name in self._moved:
            if name in self._over:
                self._let_back(name)
            queue = self._queues.get(name)
            value = 0 if queue is None else queue.account.value
            if queue is not None and queue.entered_at != value:
                queue.entered_at = value
                heappush(self._heap, (value, name))
        self._moved.clear()
        if len(self._heap) > 4 * len(self._queues) + _SLACK:
            own = ((queue.entered_at, name) for name, queue in self._queues.items())
            self._heap = [(value, name) for value, name in own if value is not None]
            heapify(self._heap)

    def _first(self) -> str | None:
        """Who has the least counter in the heap; what no longer counts before it goes."""
        heap, queues = self._heap, self._queues
        while heap:
            value, name = heap[0]
            queue = queues.get(name)
            if queue is not None and queue.entered_at == value:
                return name
            heappop(heap)
        return None

    def _off_the_heap(self, name: str) -> TenantQueue:
        """The one whose turn it is."""
        heappop(self._heap)
        queue = self._queues[name]
        queue.entered_at = None
        return queue

    def _pass_over(self, name: str) -> None:
        queue = self._off_the_heap(name)
        in_flight, weight = queue.account.in_flight, queue.weight
        if not self._over or in_flight * self._first_back[1] < self._first_back[0] * weight:
            self._first_back = in_flight, weight
        self._over[name] = queue.account.value, self._servings

    def _let_back_below(self, weight: int, slots: int) -> None:
        in_flight, of_weight = self._first_back
        if in_flight >= most_in_flight(of_weight, weight, slots):
            return
        left = list[tuple[int, int]]()
        for name in list(self._over):
            queue = self._queues[name]
            if queue.account.in_flight < most_in_flight(queue.weight, weight, slots):
                self._let_back(name)
            else:
                left.append((queue.account.in_flight, queue.weight))
        self._first_back = min(left, key=lambda each: Fraction(*each), default=(0, 1))

    def _let_back(self, name: str) -> None:
        due = self.lift_due(name)
        del self._over[name]
        self._moved[name] = None
        if due:
            self._lift(name, due)
