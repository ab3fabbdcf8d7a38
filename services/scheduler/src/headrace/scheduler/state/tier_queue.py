"""What waits in one tier. Used by state.fair_queue.

Invariant: a tenant is here while something of it waits; it takes turns, or is set aside.
"""

from collections.abc import Callable

from headrace.scheduler.state.account import Account
from headrace.scheduler.state.tenant_queue import TenantQueue
from headrace.scheduler.state.turns import Turns


class TierQueue:
    """`weight`: of all tenants with waiting requests; `aside`: those of them that are held back by name, with so many
    requests. `moved`, `lift`: as in Turns.
    """

    def __init__(self, moved: dict[str, None], lift: Callable[[str, int], None]) -> None:
        self.tenants: dict[str, TenantQueue] = {}
        self.turns = Turns(moved, lift)
        self.waiting = self.cost = self.weight = self.aside_waiting = 0
        self.aside: set[str] = set()

    def begin(self, name: str, account: Account, weight: int) -> TenantQueue:
        """Something of a tenant waits from now on."""
        queue = self.tenants[name] = TenantQueue(account, weight)
        self.weight += weight
        return queue

    def end(self, name: str) -> None:
        """Nothing of it waits any more."""
        self.weight -= self.tenants.pop(name).weight
        self.turns.leave(name)
        self.aside.discard(name)

    def reweigh(self, weight_of: Callable[[str], int]) -> None:
        """Tenants have other weights, and so other counters."""
        for name, queue in self.tenants.items():
            queue.weight = weight_of(name)
        self.weight = sum(queue.weight for queue in self.tenants.values())
        self.turns.enter_all()
