import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Place, message_of
from headrace.bus.ports import Bus
from headrace.contracts.checkpoints import Ownership
from headrace.contracts.commands import Fence
from headrace.contracts.lifecycle import Status
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.devkit.engine import FakeEngine
from tests.integration.worker.stage import POOL, Stage, chat, prepare, staged
from tests.support.eventually import eventually, eventually_async

pytestmark = pytest.mark.kafka
S = timedelta(seconds=1)
POLICY_FILE = f"""
[pools.{POOL}.models]
fake = "fake"
[topics]
tenant_partitions = 4
lanes = 2
"""


async def test_plain_streamed_and_cancelled_on_a_real_broker(kafka: str, prefix: str) -> None:
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


def _own(bus: Bus, names: TopicNames, *, epoch: int) -> None:
    """A checkpoint of an owner."""
    place = Place(names.of(TopicKind.STATE, pool=POOL), 0)
    state = bus.fenced_state("test-owner", place=place, transactional_id=f"{names.prefix}owner")
    eventually(state.claim, "the claim")
    record = Ownership(epoch=epoch, owner="o", number=1, begun_ms=1_700_000_000_000)
    state.begin([message_of(place, record, key=b"ownership")])
    eventually(state.committed, "the commit")
    state.close()


async def test_the_epoch_is_read_at_boot_a_fence_is_answered_and_an_old_owners_run_is_dropped(
    kafka: str, prefix: str, fake_engine: FakeEngine
) -> None:
    bus = KafkaBus(KafkaConnection(kafka))
    names = await prepare(bus, prefix)
    await asyncio.to_thread(_own, bus, names, epoch=4)
    async with staged(bus, fake_engine.url, prefix=prefix) as stage:
        assert (await stage.reports())[-1].epoch == 4
        await stage.send(Fence(epoch=6))

        async def answered() -> bool:
            return (await stage.reports())[-1].epoch == 6

        await eventually_async(answered, "a report of the new epoch")
        await stage.run(chat("from an old owner"))
        lane_end = (await stage.reports())[-1].position + 1

        async def passed() -> bool:
            return (await stage.reports())[-1].position >= lane_end

        await eventually_async(passed, "the worker has read the old command")
        assert not fake_engine.journal.exchanges
        assert await stage.held() == set()


@asynccontextmanager
async def _process(
    kafka: str, prefix: str, engine: FakeEngine, folder: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    (folder / "policy.toml").write_text(POLICY_FILE)
    told = {
        "HEADRACE_KAFKA": kafka,
        "HEADRACE_PREFIX": prefix,
        "HEADRACE_POLICY": str(folder / "policy.toml"),
        "HEADRACE_INFERENCE_WORKER_NAME": "w-process",
        "HEADRACE_LOG_LEVEL": "debug",
        "HEADRACE_INFERENCE_WORKER_POOL": POOL,
        "HEADRACE_INFERENCE_WORKER_BACKEND_URL": engine.url,
        "HEADRACE_INFERENCE_WORKER_LIMIT": "1",
    }
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headrace.inference_worker", env={**os.environ, **told}, stderr=log
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_terminated_process_finishes_what_runs_hands_back_what_waits_and_logs_no_prompt(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    bus = KafkaBus(KafkaConnection(kafka))
    names = await prepare(bus, prefix)
    async with (
        FakeEngine(token_delay=timedelta(milliseconds=20)) as engine,
        _process(kafka, prefix, engine, tmp_path) as process,
    ):
        stage = Stage(bus, names, "w-process", asyncio.Event())
        await stage.registered()
        running = await stage.run(chat("very secret prompt", max_tokens=60))
        waiting = await stage.run(chat("very secret prompt too"))
        await stage.running(running)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15) == 0
        assert (await stage.ended(running)).status is Status.SUCCEEDED
        assert not (await stage.ended(waiting)).started
        assert await stage.gone()
        await stage.close_readers()
    log = (tmp_path / "log").read_text()
    assert "req_1" in log
    assert "secret" not in log
