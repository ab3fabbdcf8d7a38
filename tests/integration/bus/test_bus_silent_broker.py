"""One broker of several is silent: it takes connections and never answers. Whoever starts goes on with the others."""

import asyncio
import socket
from collections.abc import Iterator
from datetime import timedelta

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.ports import BusUnavailableError
from headrace.devkit.ports import LOOPBACK

pytestmark = pytest.mark.kafka

SOON = timedelta(seconds=5)
TRIES = 6
"""aiokafka asks the brokers in an order of its own: so often that one of three tries at least begins with the silent one."""


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"{LOOPBACK}:{server.getsockname()[1]}"


@pytest.fixture
async def complaints() -> list[str]:
    """What the event loop is told of, such as a connection that nobody closed."""
    found: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context["message"]))
    return found


async def test_a_silent_broker_keeps_nobody_from_starting(
    kafka: str, silent: str, complaints: list[str]
) -> None:
    bus = KafkaBus(KafkaConnection(f"{silent},{kafka}"))
    for _ in range(TRIES):
        reader, producer = bus.async_reader("test"), bus.async_producer("test", delivery_timeout=SOON)
        await reader.start()
        await producer.start()
        await producer.stop()
        await reader.stop()
    assert complaints == []


async def test_silence_alone_is_told_and_leaves_no_connection_open(
    silent: str, complaints: list[str]
) -> None:
    reader = KafkaBus(KafkaConnection(silent)).async_reader("test")
    with pytest.raises(BusUnavailableError):
        await reader.start()
    assert complaints == []
