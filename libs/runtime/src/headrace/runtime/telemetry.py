"""What a service is given to tell about itself. Made in each `__main__.py`, or for each service of one process."""

from dataclasses import dataclass
from typing import Self

from headrace.runtime.clock import Clock, SystemClock
from headrace.runtime.health import Health
from headrace.runtime.metrics import Metrics
from headrace.runtime.settings import ServiceSettings
from headrace.runtime.tracing import Tracing


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Clock, health, metrics and traces of one service; `replica` is this process's name among its kind."""

    service: str
    replica: str
    clock: Clock
    health: Health
    metrics: Metrics
    tracing: Tracing

    @classmethod
    def create(cls, settings: ServiceSettings, clock: Clock | None = None) -> Self:
        """The service's own, from its settings; nothing is shared with another service of the same process."""
        clock = clock or SystemClock()
        service = settings.service.replace("_", "-")
        return cls(
            service=service,
            replica=settings.name,
            clock=clock,
            health=Health(clock),
            metrics=Metrics(service),
            tracing=Tracing.create(service, settings.otlp_endpoint),
        )
