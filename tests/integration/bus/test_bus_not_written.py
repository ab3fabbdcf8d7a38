"""A broker is killed under an asyncio producer of little patience: what it says was not written never comes into the log."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Message, Place
from headrace.bus.ports import START, BusError, BusUnavailableError, DeliveryUnknownError
from headrace.contracts.topics import TOPICS, Topic, TopicKind
from headrace.devkit.kafka import KafkaCluster
from tests.support.eventually import eventually_async

pytestmark = pytest.mark.kafka

FEW_SECONDS, SHORT = timedelta(seconds=3), timedelta(milliseconds=20)


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(settings={"broker.session.timeout.ms": "3000"}) as running:
        yield running


async def test_what_asyncio_says_was_not_written_never_comes_into_the_log(
    cluster: KafkaCluster, prefix: str
) -> None:
    bus, place = KafkaBus(KafkaConnection(cluster.bootstrap)), Place(prefix + "t", 0)
    topics = bus.topics("test")
    topics.create([Topic(place.topic, TOPICS[TopicKind.WORK], 1, 1, 1)])
    topics.close()
    producer, reader = (
        bus.async_producer("producer", delivery_timeout=FEW_SECONDS),
        bus.async_reader("reader"),
    )
    await producer.start()

    async def goes_on() -> int | None:
        with suppress(BusError):
            return await producer.send(Message(place.topic, 0, b"between"))
        return None

    async def is_up() -> bool:
        return await goes_on() is not None

    await eventually_async(is_up, "it writes")
    await asyncio.to_thread(cluster.kill)
    sends = []
    for number in range(40):
        sends.append(asyncio.create_task(producer.send(Message(place.topic, 0, b"%d" % number))))
        await asyncio.sleep(0.1)
    told = await asyncio.gather(*sends, return_exceptions=True)
    await asyncio.to_thread(cluster.restart)
    end = await eventually_async(goes_on, "it writes again")
    assert end is not None
    await reader.start()
    await reader.assign({place: START})
    values: list[bytes | None] = []
    while len(values) <= end:
        values += [record.value for record in await reader.read(100, SHORT)]
    assert {type(each) for each in told} == {BusUnavailableError, DeliveryUnknownError}
    refused = [b"%d" % n for n, each in enumerate(told) if isinstance(each, BusUnavailableError)]
    assert not set(refused) & set(values)
    await producer.stop()
    await reader.stop()
