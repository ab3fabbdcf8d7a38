"""The queue alone with one tenant whose fairness keys are compared as tenants are. Used by the tests of the order of release.

Invariant: as for queue_alone; the name NOBODY stands for requests without a key.
"""

from collections.abc import Collection
from fractions import Fraction

from headrace.scheduler.state.flows import Flows
from headrace.scheduler.state.tracked import Tracked
from tests.support.scheduler.queue_alone import Attempt, QueueAlone, Whose

NOBODY = "-"
_TENANT = "a"


class KeysAlone(QueueAlone):
    """`names`: of its keys."""

    def __init__(self, slots: int, names: Collection[str]) -> None:
        super().__init__(slots, dict.fromkeys(names, 1))
        self.compared_keys = names

    def put(self, tenant: str, cost: int, tier: str = "t", **more: object) -> Tracked:
        """A request of this key arrives."""
        key = None if tenant == NOBODY else tenant
        return super().put(_TENANT, cost, tier, fairness_key=key, **more)

    def book_of(self, attempt: Attempt) -> Whose:
        """Each key has its own."""
        return "t", attempt.request.record.fairness_key or NOBODY

    def compared(self) -> dict[str, set[str]]:
        """Keys with waiting requests; nobody yet while nobody counts."""
        return {"t": {name for name in self.compared_keys if self.flows is not None and self.waiting(name)}}

    def waiting(self, name: str) -> int:
        """How many requests of a key wait."""
        flow = self.flow_of(name)
        queue = self.queue._tiers["t"].tenants.get(_TENANT)
        return 0 if queue is None or flow not in queue.flows else queue.flows[flow].waiting

    def counter(self, tenant: str, tier: str = "t") -> Fraction:
        """Settled, lifts included, and what is charged by our own books."""
        flows = self.flows
        settled = 0 if flows is None else flows.of(self.flow_of(tenant)).settled
        return Fraction(settled + self.charged[tier, tenant])

    def flow_of(self, name: str) -> int:
        """The flow of a key that is known."""
        flows = self.flows
        return 0 if name == NOBODY or flows is None else flows._numbers.get(name, -1)

    @property
    def flows(self) -> Flows | None:
        """The counters."""
        return self.accounts.flows.get(("t", _TENANT))
