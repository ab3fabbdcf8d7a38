"""A member of result-delivery in the simulated world: the product's own service on a simulated bus and database.

Made by world.run. Invariant: nothing of the rule is here, nor how its parts are put together: DeliveryLoop does that.
"""

from prometheus_client import CollectorRegistry

from headrace.bus.ports import BusUnavailableError
from headrace.result_delivery.service import ResultDelivery
from headrace.result_delivery.settings import DeliverySettings
from headrace.result_delivery.wiring import DeliveryLoop
from headrace.runtime.health import Health
from headrace.runtime.metrics import Metrics
from headrace.runtime.telemetry import Telemetry
from headrace.runtime.tracing import Tracing
from tests.simulation.world.clients import SimBus
from tests.simulation.world.database import Database, SimStore
from tests.simulation.world.group import SimGroup
from tests.simulation.world.process import Process
from tests.simulation.world.stage import Stage
from tests.support.scheduler.pure import NAMES

_IDLE_MS, _AGAIN_MS = 100, 500
_TRACING = Tracing.create("simulated", None)


class SimDeliverer(Process):
    """One member."""

    def __init__(self, stage: Stage, name: str, group: SimGroup, database: Database) -> None:
        super().__init__(stage, name)
        metrics = Metrics("simulated", CollectorRegistry())
        telemetry = Telemetry("delivery", name, self.clock, Health(self.clock), metrics, _TRACING)
        settings = DeliverySettings(prefix=NAMES.prefix, name=name)
        bus = SimBus(self, group)
        self._loop = DeliveryLoop(settings, bus=bus, policy=stage.policy, telemetry=telemetry)  # type: ignore[arg-type]
        self._loop._store = SimStore(self, database)

    @property
    def delivery(self) -> ResultDelivery | None:
        """The service, while it has joined."""
        return self._loop._delivery

    def begin(self) -> None:
        """As Process.begin."""
        self._loop._join()

    def turn(self) -> int:
        """As Process.turn."""
        if self.delivery is None:
            self._loop._join()
        assert self.delivery is not None
        try:
            self.delivery.turn()
        except BusUnavailableError:
            self._loop._leave()
            return _AGAIN_MS
        return _IDLE_MS

    def stop(self) -> None:
        """SIGTERM: drains and leaves."""
        if not self.alive or self.delivery is None:
            return
        self.stage.note(self.name, "stops cleanly")
        self.waits = True
        self._guarded(self._loop.drain)
        if self.alive:
            self._guarded(self._loop._leave)
        self.waits = False
        self.kill(note="has stopped")

    def forget(self) -> None:
        """As Process.forget."""
        self._loop._delivery = None
