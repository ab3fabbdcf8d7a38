"""What result-delivery counts. Made once by the wiring, fed by the service and its parts."""

from headrace.runtime.metrics import LATENCY_BUCKETS, Metrics


class DeliveryMetrics:
    """The service's own metrics, on its registry."""

    def __init__(self, metrics: Metrics) -> None:
        self.results = metrics.counter("results_total", "Results committed.", ("status",))
        self.suppressed = metrics.counter(
            "duplicates_suppressed_total", "Terminal records of requests that had a result already."
        )
        self.requests = metrics.counter(
            "requests_noted_total", "Accepted requests that were noted, duplicates included."
        )
        self.attempts = metrics.counter(
            "attempts_booked_total", "Finished attempts that were booked, duplicates included."
        )
        self.dead_letters = metrics.counter("dlq_total", "Records that were dead-lettered.", ("reason",))
        self.left_to_owner = metrics.counter(
            "left_to_owner_total",
            "Refused records of which the pool's owner writes the dead letter.",
            ("reason",),
        )
        self.commit_seconds = metrics.histogram(
            "commit_seconds", "How long a batch's SQL transaction took.", buckets=LATENCY_BUCKETS
        )
        self.commit_failures = metrics.counter(
            "commit_failures_total", "SQL transactions that were rolled back or failed.", ("reason",)
        )
        self.outbox_depth = metrics.gauge("outbox_depth", "Committed messages that aren't confirmed yet.")
        self.rebalances = metrics.counter("rebalance_total", "Changes of this member's partitions.")
        self.partitions = metrics.gauge("assigned_partitions", "Partitions that this member reads.")
        self.unusable = metrics.gauge(
            "unusable_partitions", "Partitions that aren't read until somebody mends their log."
        )
        self.trimmed = metrics.counter(
            "results_trimmed_total", "Records of results that were deleted from the log."
        )
