"""What each backend may hold, and why, as metrics. Shown by observing once a second, while the pool is owned.

Invariant: a worker that is gone shows nothing; the labels are workers' names, which an operator gives.
"""

from collections.abc import Sequence

from headrace.runtime.metrics import Metrics
from headrace.scheduler.core.step import BackendFigures
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding


class BackendGauges:
    """The gauges."""

    def __init__(self, metrics: Metrics) -> None:
        labels = ("pool", "worker")
        self._held = metrics.gauge("backend_held_attempts", "Attempts that the backend holds.", labels)
        self._limit = metrics.gauge(
            "backend_limit_attempts",
            "Attempts that the backend may hold: its worker's limit or less.",
            labels,
        )
        self._theta = metrics.gauge(
            "backend_theta_ratio", "How much of the KV cache may be promised to what it holds.", labels
        )
        self._forecast = metrics.gauge(
            "backend_forecast_tokens", "Peak of KV cache tokens that what it holds will come to.", labels
        )
        self._cache = metrics.gauge("backend_cache_tokens", "Size of its KV cache, in tokens.", labels)
        self._bound_by = metrics.gauge(
            "backend_bound_by", "1 for what keeps the next attempt back.", (*labels, "bound")
        )
        self._shown: dict[str, set[str]] = {}

    def show(self, pool: str, backends: Sequence[BackendFigures]) -> None:
        """All live workers of a pool, and nobody else."""
        live = {figures.worker for figures in backends}
        for gone in self._shown.pop(pool, set()) - live:
            every = (self._held, self._limit, self._theta, self._forecast, self._cache, self._bound_by)
            for gauge in every:
                gauge.remove_by_labels({"pool": pool, "worker": gone})
        if live:
            self._shown[pool] = live
        for figures in backends:
            self._show(pool, figures)

    def _show(self, pool: str, figures: BackendFigures) -> None:
        worker = figures.worker
        self._held.labels(pool, worker).set(figures.held)
        self._limit.labels(pool, worker).set(figures.limit)
        for bound in Binding:
            self._bound_by.labels(pool, worker, bound).set(bound is figures.binds)
        cache = (
            (self._theta, figures.theta_percent, 100),
            (self._forecast, figures.forecast_tokens, 1),
            (self._cache, figures.cache_tokens, 1),
        )
        for gauge, value, unit in cache:
            if value is None:
                gauge.remove_by_labels({"pool": pool, "worker": worker})
            else:
                gauge.labels(pool, worker).set(value / unit)
