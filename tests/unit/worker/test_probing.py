"""When a worker looks at its backend, and in which order it tells what it saw."""

import asyncio
from datetime import timedelta

from prometheus_client import CollectorRegistry

from headrace.inference_worker.probing import Probing
from headrace.inference_worker.protocol.inputs import BackendSeen, GaugesSeen
from headrace.inference_worker.timings import Timings
from headrace.inference_worker.worker_metrics import WorkerMetrics
from headrace.runtime.metrics import Metrics

PAGE = "vllm:num_requests_running 3.0\n"
OFTEN, NEVER = timedelta(milliseconds=1), timedelta(days=1)


class Engine:
    """Answers from the so-many-th probe on; has a page of metrics then, if it has one."""

    def __init__(self, answers_from: int, page: str | None = PAGE) -> None:
        self.probes, self.answers_from, self.page = 0, answers_from, page
        self.asked_for_metrics = 0

    async def alive(self) -> bool:
        """As Backend.alive."""
        self.probes += 1
        return self.probes >= self.answers_from

    async def metrics(self) -> str | None:
        """As Metered.metrics."""
        self.asked_for_metrics += 1
        return self.page if self.probes >= self.answers_from else None


def probing_of(engine: Engine, **timings: timedelta) -> Probing:
    metrics = WorkerMetrics(Metrics("worker", CollectorRegistry()))
    return Probing(engine, engine, timings=Timings(**timings), metrics=metrics)  # type: ignore[arg-type]


async def told_until_healthy(probing: Probing) -> list[BackendSeen | GaugesSeen]:
    told: list[BackendSeen | GaugesSeen] = []
    healthy = asyncio.Event()

    def tell(seen: BackendSeen | GaugesSeen) -> None:
        told.append(seen)
        if seen == BackendSeen(healthy=True):
            healthy.set()

    task = asyncio.create_task(probing.health(tell))
    await asyncio.wait_for(healthy.wait(), 10)
    task.cancel()
    return told


async def test_a_backend_that_comes_up_is_known_by_its_gauges_before_it_is_called_healthy() -> None:
    told = await told_until_healthy(probing_of(Engine(answers_from=3), probe_every=OFTEN))
    assert [type(seen) for seen in told] == [BackendSeen, BackendSeen, GaugesSeen, BackendSeen]


async def test_a_backend_without_metrics_is_called_healthy_all_the_same() -> None:
    told = await told_until_healthy(probing_of(Engine(answers_from=1, page=None), probe_every=OFTEN))
    assert told == [BackendSeen(healthy=True)]


async def test_a_backend_that_comes_up_is_sampled_at_once_however_seldom_it_was() -> None:
    engine = Engine(answers_from=2)
    probing, sampled = probing_of(engine, probe_every=OFTEN, sample_every=NEVER), asyncio.Event()
    gauges = asyncio.create_task(probing.gauges(lambda _: sampled.set()))
    await asyncio.sleep(0)
    await told_until_healthy(probing)
    await asyncio.wait_for(sampled.wait(), 10)
    gauges.cancel()
    assert engine.asked_for_metrics == 3
