import asyncio
from datetime import timedelta

import orjson
import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.contracts.commands import Fence
from headrace.contracts.lifecycle import Status
from headrace.devkit.engine import FakeEngine
from tests.integration.worker.stage import chat, staged
from tests.support.eventually import eventually_async

pytestmark = pytest.mark.kafka
S = timedelta(seconds=1)


async def test_plain_streamed_cancelled_and_drained_on_a_real_broker(kafka: str, prefix: str) -> None:
    bus = KafkaBus(KafkaConnection(kafka))
    async with (
        FakeEngine(token_delay=timedelta(milliseconds=20)) as engine,
        staged(bus, engine.url, prefix=prefix) as stage,
    ):
        plain = await stage.run(chat("plain"))
        streamed = await stage.run(chat("streamed", stream=True), stream=True)
        cancelled = await stage.run(chat("cancelled", max_tokens=1000))
        await stage.running(cancelled)
        await stage.cancel(cancelled)
        _, answer = await stage.result(plain)
        (exchange,) = engine.journal.with_text('"plain"')
        assert answer == exchange.response
        _, whole = await stage.result(streamed)
        text = orjson.loads(whole)["choices"][0]["message"]["content"]

        async def whole_text() -> bool:
            chunks = await stage.chunks(streamed)
            return bool(chunks) and chunks[-1][0].characters == len(text)

        await eventually_async(whole_text, "all chunks of the stream")
        assert (await stage.result(cancelled))[0].status is Status.CANCELLED
        running = await stage.run(chat("runs on", max_tokens=100))
        await stage.running(running)
        stage.stop.set()
        await asyncio.wait_for(stage.task, 15)
        assert (await stage.ended(running)).status is Status.SUCCEEDED
        assert await stage.gone()


async def test_a_fence_is_answered_on_a_real_broker_and_an_old_owners_run_is_dropped(
    kafka: str, prefix: str, fake_engine: FakeEngine
) -> None:
    async with staged(KafkaBus(KafkaConnection(kafka)), fake_engine.url, prefix=prefix) as stage:
        await stage.send(Fence(epoch=6))

        async def answered() -> bool:
            return (await stage.reports())[-1].epoch == 6

        await eventually_async(answered, "a report of the new epoch", 2 * S)
        await stage.run(chat("from an old owner"))
        lane_end = (await stage.reports())[-1].position + 1

        async def passed() -> bool:
            return (await stage.reports())[-1].position >= lane_end

        await eventually_async(passed, "the worker has read the old command")
        assert not fake_engine.journal.exchanges
        assert await stage.held() == set()
