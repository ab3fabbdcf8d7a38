"""A client that doesn't start, or whose start or stop is cancelled, leaves no task, no connection and nothing in the log."""

import asyncio
import gc
import logging
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.kafka import async_clients as clients
from headrace.bus.kafka.aiokafka_types import inner_client, new_consumer
from headrace.bus.ports import BusUnavailableError
from headrace.devkit.ports import LOOPBACK, free_port
from tests.support.eventually import eventually_async

AT_ONCE, SETTINGS = 10, {"bootstrap_servers": f"{LOOPBACK}:1", "group_id": None}


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server((LOOPBACK, 0), backlog=1000) as server:
        yield f"{LOOPBACK}:{server.getsockname()[1]}"


@pytest.fixture
async def complaints() -> list[str]:
    """What the event loop is told of."""
    found: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context["message"]))
    return found


def others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


def live_clients() -> int:
    gc.collect()
    return sum(isinstance(each, AIOKafkaClient) for each in gc.get_objects())


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(
        logging.CRITICAL, "aiokafka"
    )  # a record that is kept holds an error, which holds a client
    monkeypatch.setattr(clients, "ANSWER_WITHIN", timedelta(seconds=1))
    monkeypatch.setattr(clients, "_ONE_BROKER_MS", 250)


async def given_up(bus: KafkaBus, whole: int) -> None:
    """Starts, each cancelled again and again until it is over."""
    starts = [asyncio.create_task(bus.async_reader("test").start()) for _ in range(AT_ONCE)]

    async def all_wait() -> bool:
        return live_clients() >= whole

    await eventually_async(all_wait, "each has a client")
    while left := [start for start in starts if not start.done()]:
        for start in left:
            start.cancel()
        await asyncio.wait(left, timeout=0.02)
    assert all(start.cancelled() for start in starts)


@pytest.mark.usefixtures("hasty")
async def test_starts_that_are_cancelled_again_and_again_leave_nothing(
    silent: str, complaints: list[str]
) -> None:
    before = live_clients()
    await given_up(KafkaBus(KafkaConnection(silent)), before + AT_ONCE)
    assert (others(), live_clients(), complaints) == (set(), before, [])


async def refused(bus: KafkaBus) -> None:
    starts = [asyncio.create_task(bus.async_reader("test").start()) for _ in range(AT_ONCE)]
    await asyncio.wait(starts)
    assert {type(start.exception()) for start in starts} == {BusUnavailableError}


@pytest.mark.usefixtures("hasty")
async def test_starts_that_no_broker_answers_leave_nothing(complaints: list[str]) -> None:
    bus, before = KafkaBus(KafkaConnection(f"{LOOPBACK}:{free_port()}")), live_clients()
    await refused(bus)
    assert (others(), live_clients(), complaints) == (set(), before, [])


async def begun() -> Any:
    """A consumer as one is right after its start, with its tasks, before any of them has made a step."""
    consumer: Any = new_consumer(SETTINGS)

    async def bootstrap() -> None:
        inner_client(consumer)._sync_task = asyncio.create_task(inner_client(consumer)._md_synchronizer())

    inner_client(consumer).bootstrap = bootstrap
    await consumer.start()
    return consumer


async def test_a_consumer_that_is_stopped_before_its_tasks_made_a_step_ends_them_all(
    complaints: list[str],
) -> None:
    consumer = await begun()
    assert len(others()) == 3
    await clients.stop_consumer(consumer)
    assert (others(), complaints) == (set(), [])


async def test_a_stop_that_is_cancelled_again_and_again_ends_all_tasks(
    monkeypatch: pytest.MonkeyPatch, complaints: list[str]
) -> None:
    untyped: Any = Fetcher
    swallowed = list[object]()

    async def stubborn(fetcher: object) -> None:
        while len(swallowed) < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed.append(fetcher)

    monkeypatch.setattr(untyped, "_fetch_requests_routine", stubborn)
    consumer = await begun()
    await asyncio.sleep(0)
    stop = asyncio.create_task(clients.stop_consumer(consumer))
    await asyncio.sleep(0)  # it has begun
    while not stop.done():
        stop.cancel()
        await asyncio.wait({stop}, timeout=0.05)
    assert (stop.cancelled(), len(swallowed), others(), complaints) == (True, 3, set(), [])
