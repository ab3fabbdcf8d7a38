"""What the worker counts. Made once by wiring; fed by the service and the attempt runner."""

from headrace.contracts.values import Usage
from headrace.inference_worker.outcome import Outcome
from headrace.runtime.metrics import Metrics

_FIRST_TOKEN_SECONDS = (0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 120.0)


class WorkerMetrics:
    """Attempts, tokens, time to first token, what is in flight."""

    def __init__(self, metrics: Metrics) -> None:
        self._attempts = metrics.counter(
            "worker_attempts_total", "Backend calls that ended, by what they came to.", ("outcome",)
        )
        self._tokens = metrics.counter(
            "worker_tokens_total", "Tokens as the backend reported them, by kind.", ("kind",)
        )
        self._first = metrics.histogram(
            "worker_time_to_first_token_seconds", "From the call to the first text.", (), _FIRST_TOKEN_SECONDS
        )
        self.in_flight = metrics.gauge("worker_calls_in_flight", "Backend calls that run now.")
        self.healthy = metrics.gauge("worker_backend_healthy", "1 when the backend answers its health probe.")
        self.registrations = metrics.counter(
            "worker_registrations_total", "Boots: 1 at start, more when a worker lost touch."
        )
        self.chunks_lost = metrics.counter(
            "worker_chunks_lost_total", "Live chunks that were not sent; the stored answer mends them."
        )

    def ended(self, outcome: Outcome) -> None:
        """One call is over."""
        self._attempts.labels(name_of(outcome)).inc()
        self._count(outcome.usage)
        times = outcome.times
        if times.first_token_ms is not None and times.started_ms is not None:
            self._first.observe(max(0, times.first_token_ms - times.started_ms) / 1000)

    def _count(self, usage: Usage) -> None:
        self._tokens.labels("prompt").inc(usage.prompt_tokens)
        self._tokens.labels("cached").inc(usage.cached_tokens)
        self._tokens.labels("completion").inc(usage.completion_tokens)


def name_of(outcome: Outcome) -> str:
    """One word for logs and labels: succeeded, aborted, or the kind of failure."""
    if outcome.aborted:
        return "aborted"
    return str(outcome.failure.kind) if outcome.failure else "succeeded"
