"""A load on a broker, and a broker that is killed under it."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from headrace.bus.messages import Message, Place
from headrace.bus.ports import (
    Confirmation,
    LoopProducer,
    LoopReader,
)
from headrace.devkit.kafka import READY_WITHIN, KafkaCluster
from tests.support.eventually import PATIENCE, eventually

PATIENT = READY_WITHIN + PATIENCE
"""For what may begin while the broker is away: on a busy machine its start alone takes most of a minute."""
SHORT = timedelta(milliseconds=20)
A_FEW = 50


def kill_and_restart(cluster: KafkaCluster, counts: Callable[[], int]) -> None:
    """Under load: wait for some, kill, restart, wait for some more. `counts` raises what ended the load."""
    eventually(lambda: counts() >= A_FEW, "a few before")
    cluster.kill()
    cluster.restart()
    before = counts()
    eventually(lambda: counts() >= before + A_FEW, "a few after")


def confirmed_by(producer: LoopProducer, found: list[Confirmation]) -> bool:
    """Whether anything is confirmed by now; `found` gets it."""
    found.extend(producer.confirmations())
    return bool(found)


def read_until(reader: LoopReader, enough: Callable[[list[bytes | None]], bool]) -> list[bytes | None]:
    """The values read until there are enough."""
    values: list[bytes | None] = []

    def read_on() -> bool:
        values.extend(record.value for record in reader.read(100, SHORT))
        return enough(values)

    eventually(read_on, "enough records")
    return values


def written(producer: LoopProducer, value: bytes, place: Place) -> bool:
    """Whether a record is confirmed. One that a busy broker didn't confirm in time may be there all the same."""
    producer.send(Message(place.topic, place.partition, value), 0)
    assert producer.flush(PATIENT) == 0
    return producer.confirmations()[-1].error is None


def all_well(tasks: Sequence[asyncio.Task[None]]) -> bool:
    """True; raises what has ended one of them before its time."""
    for task in tasks:
        if task.done():
            task.result()
    return True
