"""How the queue of each tier of a pool stands, as metrics. Used by observing."""

from headrace.contracts.observations import QueueState
from headrace.runtime.metrics import Metrics


class QueueGauges:
    """By pool and tier. `all`: every one, so that what is no longer known can be taken back."""

    def __init__(self, metrics: Metrics) -> None:
        labels = ("pool", "tier")
        self._depth = metrics.gauge("queue_depth", "Requests that wait.", labels)
        self._oldest = metrics.gauge(
            "queue_oldest_wait_seconds", "Wait of the oldest request that waits.", labels
        )
        self._spilled = metrics.gauge(
            "queue_spilled", "Requests that wait of which the owner has only metadata in memory.", labels
        )
        self._frozen = metrics.gauge(
            "queue_frozen", "Requests that wait and that an operator holds back.", labels
        )
        self._paced = metrics.gauge(
            "queue_paced", "Requests that wait and whose tenants are over a ceiling of theirs.", labels
        )
        self.all = (self._depth, self._oldest, self._spilled, self._frozen, self._paced)

    def show(self, state: QueueState) -> None:
        """The owner's word on one tier."""
        self._depth.labels(state.pool, state.tier).set(state.depth)
        self._oldest.labels(state.pool, state.tier).set(state.oldest_wait_ms / 1000)
        self._spilled.labels(state.pool, state.tier).set(state.spilled)
        self._frozen.labels(state.pool, state.tier).set(state.frozen_depth)
        self._paced.labels(state.pool, state.tier).set(state.paced_depth)
