"""The stamp that a loop gives at each turn: to liveness, to the metrics and to the heaps. Used by both supervisors.

Invariant: only a loop that really turned stamps; no timer or thread does it in its place.
"""

from dataclasses import dataclass
from datetime import timedelta

from headrace.runtime.health import Component, Health
from headrace.runtime.heaps import SpareHeap
from headrace.runtime.metrics import LoopMetrics

STALLS_AFTER = timedelta(seconds=10)
"""A loop that hasn't turned for so long isn't live."""


@dataclass(frozen=True)
class Vitals:
    """Where a service tells how it is, and what it does with memory that it has to spare: all may be absent, as in tests."""

    health: Health | None = None
    loop: LoopMetrics | None = None
    stalls_after: timedelta = STALLS_AFTER
    heap: SpareHeap | None = None

    def heartbeat(self, service: str) -> "Heartbeat":
        """Starts watching the loop of a service."""
        component = None
        if self.health is not None:
            component = self.health.component(
                f"{service} loop", stalls_after=self.stalls_after, not_ready=None
            )
        return Heartbeat(service, component, self.loop, self.heap)

    def drain(self) -> None:
        """The service takes no more work."""
        if self.health is not None:
            self.health.drain()


@dataclass(frozen=True)
class Heartbeat:
    """One loop's stamp."""

    service: str
    component: Component | None
    metrics: LoopMetrics | None
    heap: SpareHeap | None = None

    def turned(self, late: timedelta) -> None:
        """The loop goes round, this much later than it was due."""
        if self.component is not None:
            self.component.turned()
        if self.metrics is not None:
            self.metrics.turned(self.service, max(late, timedelta()))
        if self.heap is not None:
            self.heap.turned()
