"""One broker of several is silent: it takes connections and never answers. Whoever starts goes on with the others."""

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


@contextmanager
def talkative(kafka: str) -> Iterator[str]:
    """A broker that falls silent after its first answer, as one that is cut off in the midst of a connection."""
    host, _, port = kafka.partition(":")

    def answer_once(here: socket.socket) -> None:
        with here, socket.create_connection((host, int(port))) as there:
            there.sendall(here.recv(65_536))
            here.sendall(there.recv(65_536))
            while here.recv(65_536):
                pass

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer_once, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server((LOOPBACK, 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield f"{LOOPBACK}:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


async def test_a_start_that_is_given_up_in_its_midst_leaves_no_connection_open(
    kafka: str, complaints: list[str]
) -> None:
    with talkative(kafka) as address:
        reader = KafkaBus(KafkaConnection(address)).async_reader("test")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await reader.start()
        gc.collect()
    assert complaints == []
