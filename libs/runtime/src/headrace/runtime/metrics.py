"""Counters, gauges and histograms of one service, on a registry of its own. Built in each `__main__.py`.

Invariant: every name begins with `headrace_` and ends in a base unit, and no label grows with the number of tenants
or requests.
"""

import platform
import re
from collections.abc import Sequence
from datetime import timedelta
from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector

WAIT_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0)
"""Seconds: from what nobody notices to a batch that waits for the night."""

LATENCY_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds, for our own work: a produce, a turn of a loop, a query."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_NOT_BASE_UNITS = (
    "_ms",
    "_us",
    "_millis",
    "_milliseconds",
    "_minutes",
    "_hours",
    "_kb",
    "_mb",
    "_kib",
    "_mib",
    "_percent",
)
_UNBOUNDED_LABELS = frozenset({"tenant", "request", "request_id", "attempt", "boot", "user", "key"})


class Metrics:
    """Makes the metrics of a service and holds the registry that /metrics renders."""

    def __init__(self, service: str, registry: CollectorRegistry | None = None) -> None:
        """Registers build information and the process's CPU, memory and garbage collection at once."""
        self.service = service
        self.registry = CollectorRegistry(auto_describe=True) if registry is None else registry
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        build = self.gauge(
            "build_info", "Which build of which service this is.", ("service", "version", "python")
        )
        build.labels(service, _version(), platform.python_version()).set(1)

    def counter(self, name: str, about: str, labels: Sequence[str] = ()) -> Counter:
        """Something that only grows; `name` ends in `_total`."""
        if not name.endswith("_total"):
            raise ValueError(f"counter {name}: its name must end in _total")
        return Counter(_full(name, labels), about, labels, registry=self.registry)

    def gauge(self, name: str, about: str, labels: Sequence[str] = ()) -> Gauge:
        """Something that goes up and down."""
        return Gauge(_full(name, labels), about, labels, registry=self.registry)

    def histogram(
        self, name: str, about: str, labels: Sequence[str] = (), buckets: Sequence[float] = WAIT_BUCKETS
    ) -> Histogram:
        """How something is distributed; seconds or bytes by its name's end, buckets in the same unit."""
        return Histogram(_full(name, labels), about, labels, registry=self.registry, buckets=buckets)


class LoopMetrics:
    """How a loop turns. Made and fed by the supervisor."""

    def __init__(self, metrics: Metrics) -> None:
        self._turns = metrics.counter("loop_turns_total", "Turns of a service's loop.", ("loop",))
        self._lag = metrics.histogram(
            "event_loop_lag_seconds", "How much later than due a loop turned.", ("loop",), LATENCY_BUCKETS
        )

    def turned(self, loop: str, late: timedelta) -> None:
        """One more turn, this much later than it was due."""
        self._turns.labels(loop).inc()
        self._lag.labels(loop).observe(late.total_seconds())


def _full(name: str, labels: Sequence[str]) -> str:
    if not _NAME.fullmatch(name) or name.startswith("headrace_"):
        raise ValueError(f"metric {name}: write it in snake_case, without the prefix headrace_")
    if name.removesuffix("_total").endswith(_NOT_BASE_UNITS):
        raise ValueError(f"metric {name}: use a base unit (seconds, bytes, ratio)")
    if unbounded := _UNBOUNDED_LABELS.intersection(labels):
        raise ValueError(f"metric {name}: label {min(unbounded)} would make a series for each of them")
    return f"headrace_{name}"


def _version() -> str:
    try:
        return metadata.version("headrace")
    except metadata.PackageNotFoundError:
        return "unknown"
