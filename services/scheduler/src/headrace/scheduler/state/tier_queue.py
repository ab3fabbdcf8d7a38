"""What waits in one tier. Used by state.fair_queue.

Invariant: a tenant is here while something of it waits; it takes turns, or is set aside.
"""

from collections.abc import Callable

from headrace.scheduler.state.account import Account
from headrace.scheduler.state.tenant_queue import TenantQueue
from headrace.scheduler.state.turns import Turns


class TierQueue:
    """`aside`: those of the tenants that are held back by name, with so many requests; `weight`: of all others.
    `moved`, `lift`: as in Turns.
    """

    def __init__(self, moved: dict[str, None], lift: Callable[[str, int], None]) -> None:
        self.tenants: dict[str, TenantQueue] = {}
        self.turns = Turns(moved, lift)
        self.waiting = self.cost = self.weight = self.aside_waiting = 0
        self.aside: set[str] = set()

    def begin(self, name: str, account: Account, weight: int, *, aside: bool) -> TenantQueue:
        """Something of a tenant waits from now on."""
        queue = self.tenants[name] = TenantQueue(account, weight)
        if aside:
            self.aside.add(name)
        else:
            self._take_turns(name, queue)
        return queue

    def end(self, name: str) -> None:
        """Nothing of it waits any more."""
        queue = self.tenants.pop(name)
        if name in self.aside:
            self.aside.discard(name)
        else:
            self._take_none(name, queue)

    def set_aside(self, name: str) -> None:
        """It is held back by name from now on."""
        queue = self.tenants[name]
        self._take_none(name, queue)
        self.aside.add(name)
        self.aside_waiting += queue.waiting

    def bring_back(self, name: str) -> None:
        """It no longer is; it was lifted before."""
        queue = self.tenants[name]
        self.aside.discard(name)
        self.aside_waiting -= queue.waiting
        self._take_turns(name, queue)

    def reweigh(self, weight_of: Callable[[str], int]) -> None:
        """Tenants have other weights, and so other counters."""
        for name, queue in self.tenants.items():
            queue.weight = weight_of(name)
        self.weight = sum(queue.weight for name, queue in self.tenants.items() if name not in self.aside)
        self.turns.enter_all()

    def others_weight(self, name: str) -> int:
        """Of those who wait and aren't held back, but for this one."""
        queue = None if name in self.aside else self.tenants.get(name)
        return self.weight - (0 if queue is None else queue.weight)

    def _take_turns(self, name: str, queue: TenantQueue) -> None:
        self.weight += queue.weight
        self.turns.enter(name, queue)

    def _take_none(self, name: str, queue: TenantQueue) -> None:
        self.weight -= queue.weight
        self.turns.leave(name)
