"""What the pools do, as metrics and log lines. Given to pool_loop as its Watcher by wiring.

Invariant: logs once, here, with ids and never a payload; no label grows with tenants or requests.
"""

from collections.abc import Sequence

from headrace.contracts.observations import QueueState
from headrace.contracts.outcomes import Verdict
from headrace.runtime.logging import get_logger
from headrace.runtime.metrics import LATENCY_BUCKETS, Metrics
from headrace.scheduler.backend_gauges import BackendGauges
from headrace.scheduler.core.counted import OF_VERDICT, Counted
from headrace.scheduler.core.step import Fleet, Notice, Outputs
from headrace.scheduler.ports import Standing
from headrace.scheduler.queue_gauges import QueueGauges

_VERDICTS = {OF_VERDICT[verdict]: str(verdict) for verdict in Verdict} | {
    Counted.ATTEMPTS_LOST: "lost",
    Counted.ATTEMPTS_WORKER_DIED: "worker_died",
}


class Observing:
    """Metrics and log of the scheduler."""

    def __init__(self, metrics: Metrics) -> None:
        pool, tier = ("pool",), ("pool", "tier")
        self._log = get_logger("scheduler")
        self._queues = QueueGauges(metrics)
        self._pool_paced = metrics.gauge(
            "pool_over_ceiling", "1 while a pool's own ceiling lets nothing be released.", pool
        )
        self._wait = metrics.histogram("queue_wait_seconds", "How long released requests had waited.", tier)
        self._in_flight = metrics.gauge("attempts_in_flight", "Attempts in workers' hands.", pool)
        self._paused = metrics.gauge("paused_partitions", "Request partitions not read at present.", pool)
        self._attempts = metrics.counter(
            "attempts_total", "Attempts by what they came to.", ("pool", "verdict")
        )
        self._decisions = metrics.counter("decisions_total", "Decisions taken.", ("pool", "decision"))
        self._checkpoint = metrics.histogram(
            "checkpoint_seconds", "From a checkpoint's begin to its commit.", pool, LATENCY_BUCKETS
        )
        self._trimmed = metrics.counter(
            "trimmed_records_total", "Records deleted from requests, attempts and control.", pool
        )
        self._undelivered = metrics.gauge(
            "undelivered_records",
            "Finished records that can't be trimmed, since result-delivery hasn't committed them.",
            pool,
        )
        self._takeovers = metrics.counter("takeovers_total", "Pools taken over.", pool)
        self._standings = metrics.gauge(
            "pool_standing", "1 for what this replica is to the pool.", ("pool", "standing")
        )
        self._workers = metrics.gauge("pool_workers", "Live workers.", pool)
        self._slots = metrics.gauge("pool_slots", "Attempts that live workers may hold together.", pool)
        self._backends = BackendGauges(metrics)
        self._stands: dict[str, Standing] = {}

    def stepped(self, pool: str, outputs: Outputs, states: Sequence[QueueState], fleet: Fleet) -> None:
        """As Watcher.stepped."""
        waits = {tier: self._wait.labels(pool, tier) for tier in {tier for tier, _ in outputs.waits_ms}}
        for tier, waited_ms in outputs.waits_ms:
            waits[tier].observe(waited_ms / 1000)
        if outputs.undelivered is not None:
            self._undelivered.labels(pool).set(outputs.undelivered)
        if outputs.checkpoint_ms is not None:
            self._checkpoint.labels(pool).observe(outputs.checkpoint_ms / 1000)
        if outputs.backends is not None:
            self._backends.show(pool, outputs.backends)
        if outputs.counts or outputs.checkpoint_ms is not None:
            self._count(pool, outputs)
            self._in_flight.labels(pool).set(fleet.held)
            self._workers.labels(pool).set(fleet.workers)
            self._slots.labels(pool).set(fleet.slots)
            self._pool_paced.labels(pool).set(fleet.over_ceiling)
            self._paused.labels(pool).set(len(outputs.paused))
            for state in states:
                self._queues.show(state)
        for notice in outputs.notices:
            self.noticed(notice)

    def noticed(self, notice: Notice) -> None:
        """As Watcher.noticed."""
        write = self._log.warning if notice.warning else self._log.info
        write(notice.event, **notice.fields)

    def stands(self, pool: str, standing: Standing) -> None:
        """As Watcher.stands."""
        if self._stands.get(pool) is standing:
            return
        self._stands[pool] = standing
        for each in Standing:
            self._standings.labels(pool, each).set(each is standing)
        if standing is not Standing.OWNER:
            self._forget(pool)

    def took_over(self, pool: str) -> None:
        """As Watcher.took_over."""
        self._takeovers.labels(pool).inc()

    def _forget(self, pool: str) -> None:
        """Whoever doesn't own the pool knows nothing of it: an old figure would stand beside the new owner's."""
        of_pool = (
            self._in_flight,
            self._paused,
            self._pool_paced,
            self._workers,
            self._slots,
            self._undelivered,
        )
        for gauge in (*self._queues.all, *of_pool):
            gauge.remove_by_labels({"pool": pool})
        self._backends.show(pool, ())

    def _count(self, pool: str, outputs: Outputs) -> None:
        for what, count in outputs.counts.items():
            if what in _VERDICTS:
                self._attempts.labels(pool, _VERDICTS[what]).inc(count)
            elif what is Counted.TRIMMED_RECORDS:
                self._trimmed.labels(pool).inc(count)
            else:
                self._decisions.labels(pool, what).inc(count)
