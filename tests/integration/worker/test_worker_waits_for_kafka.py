"""Brokers that answer one question and not the next, while a worker connects: it waits, and ends well when it is told to."""

import asyncio
from typing import Any

from headrace.bus.memory import MemoryBus
from headrace.bus.memory.async_ports import MemoryAsyncProducer
from headrace.bus.ports import BusUnavailableError
from headrace.devkit.engine import FakeEngine
from headrace.inference_worker.settings import WorkerSettings
from headrace.inference_worker.wiring import serve
from headrace.runtime.telemetry import Telemetry
from tests.integration.worker.stage import POLICY, POOL, QUICK, prepare, staged
from tests.support.eventually import eventually_async


class FailingProducer(MemoryAsyncProducer):
    async def start(self) -> None:
        raise BusUnavailableError("no Kafka broker answers")


class FlakyBus(MemoryBus):
    """Its topics can be asked for, and its first producers find no broker: so many as `failing` says, None for all."""

    def __init__(self, failing: int | None) -> None:
        super().__init__()
        self.failing, self.asked = failing, 0

    def async_producer(self, name: str, **more: Any) -> MemoryAsyncProducer:
        self.asked += name.endswith("reports")
        if name.endswith("outcomes") and (self.failing is None or self.asked <= self.failing):
            return FailingProducer(self._broker)
        return super().async_producer(name, **more)


async def test_a_worker_whose_brokers_fail_while_it_connects_tries_again(fake_engine: FakeEngine) -> None:
    bus = FlakyBus(failing=1)
    async with staged(bus, fake_engine.url) as stage:
        assert await stage.registered()
    assert bus.asked == 2


async def test_a_worker_that_is_told_to_stop_while_it_connects_ends_without_an_error(
    fake_engine: FakeEngine,
) -> None:
    bus = FlakyBus(failing=None)
    await prepare(bus, "t.")
    given = WorkerSettings(name="w", prefix="t.", pool=POOL, backend_url=fake_engine.url)
    stop = asyncio.Event()
    task = asyncio.create_task(
        serve(given, bus=bus, policy=POLICY, telemetry=Telemetry.create(given), stop=stop, timings=QUICK)
    )

    async def has_tried() -> bool:
        return bus.asked > 0

    await eventually_async(has_tried, "it has tried to connect")
    stop.set()
    await asyncio.wait_for(task, 20)
