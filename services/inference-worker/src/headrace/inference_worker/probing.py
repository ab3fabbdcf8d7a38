"""Looks at the backend again and again: whether it answers, and what its metrics say of its load. Run by the service.

Invariant: says what was seen and decides nothing; a backend without metrics is asked more and more seldom.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from headrace.inference_worker.decisions.read_gauges import gauges_in
from headrace.inference_worker.ports import Backend, Metered
from headrace.inference_worker.protocol.inputs import BackendSeen, GaugesSeen
from headrace.inference_worker.timings import Timings
from headrace.inference_worker.worker_metrics import WorkerMetrics

Tell = Callable[[BackendSeen | GaugesSeen], None]
_PROBES_TO_MISS = 2
_MOST_SELDOM = timedelta(seconds=30)


class Probing:
    """The looks at one backend; `metered` is the same, for its metrics."""

    def __init__(
        self, backend: Backend, metered: Metered, *, timings: Timings, metrics: WorkerMetrics
    ) -> None:
        self._backend, self._metered, self._timings, self._metrics = backend, metered, timings, metrics
        self._answers_again = asyncio.Event()

    async def health(self, tell: Tell) -> None:
        """A busy backend may miss one probe; a call that can't connect says so by itself.

        One that answers again is asked for its gauges first: whoever hears that it is healthy must not take it for one that
        has none, and give it all at once.
        """
        missed = _PROBES_TO_MISS
        while True:
            healthy = await self._backend.alive()
            if healthy and missed:
                await self._sample(tell)
                self._answers_again.set()
            missed = 0 if healthy else missed + 1
            if healthy or missed >= _PROBES_TO_MISS:
                self._metrics.healthy.set(healthy)
                tell(BackendSeen(healthy))
            await asyncio.sleep(self._timings.probe_every.total_seconds())

    async def gauges(self, tell: Tell) -> None:
        """A sample each second, while there are any."""
        wait = self._timings.sample_every
        while True:
            found = await self._sample(tell)
            wait = self._timings.sample_every if found else min(2 * wait, _MOST_SELDOM)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait.total_seconds()):
                    await self._answers_again.wait()
                    wait = self._timings.sample_every
            self._answers_again.clear()

    async def _sample(self, tell: Tell) -> bool:
        """Tell what its metrics say now; whether they say anything."""
        page = await self._metered.metrics()
        gauges = None if page is None else gauges_in(page)
        if gauges is not None:
            tell(GaugesSeen(gauges))
        return gauges is not None
