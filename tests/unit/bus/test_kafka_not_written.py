"""When an asyncio producer may say that nothing was written: on aiokafka's own queue of batches."""

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderForPartitionError,
    OutOfOrderSequenceNumber,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)
from aiokafka.producer.message_accumulator import MessageAccumulator

from headrace.bus.kafka import KafkaConnection
from headrace.bus.kafka.async_producer import KafkaAsyncProducer
from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusError, BusUnavailableError, DeliveryUnknownError

PLACE = Place("t", 0)
WHERE = TopicPartition("t", 0)
MESSAGE = Message("t", 0, b"v")
LONG, SHORT = timedelta(seconds=60), timedelta(milliseconds=30)


class Client:
    """aiokafka's producer without a connection: a test sends what stands in its queue, and answers for the broker."""

    def __init__(self) -> None:
        cluster: Any = ClusterMetadata
        made = cast("Any", MessageAccumulator)
        self._message_accumulator = made(cluster(), 1024, 0, 30, loop=asyncio.get_running_loop())
        self.client = self
        self.connected = asyncio.Event()
        self.connected.set()

    def create_batch(self) -> Any:
        return self._message_accumulator.create_builder()

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        return await self._message_accumulator.add_batch(batch, TopicPartition(topic, partition), 1)

    @property
    def queued(self) -> int:
        return len(self._message_accumulator._batches.get(WHERE, ()))

    async def flush(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        pass

    async def close(self) -> None:
        pass


def producer_of(client: Client, patience: timedelta = LONG) -> Any:
    """A producer that has this client, connected or not."""
    producer: Any = KafkaAsyncProducer(KafkaConnection("127.0.0.1:1"), "test", patience, acks_all=True)

    async def sound_client() -> Client:
        await client.connected.wait()
        return client

    producer._running, producer._known, producer._sound_client = True, {PLACE}, sound_client
    return producer


async def failed_with(error: KafkaError, *, sends: int) -> BusError:
    """What a caller is told whose batch was sent so often and then failed so."""
    client = Client()
    producer, accumulator = producer_of(client), client._message_accumulator
    sending = asyncio.ensure_future(producer.send(MESSAGE))
    while not client.queued:
        await asyncio.sleep(0)
    [batch] = accumulator._batches[WHERE]
    for number in range(sends):
        if number:
            accumulator.reenqueue(batch)
        accumulator._pop_batch(WHERE)
    batch.failure(error)
    with pytest.raises(BusError) as told:
        await sending
    assert client.queued == 0, "it is never sent from now on"
    await producer.stop()
    return told.value


@pytest.mark.parametrize(
    ("error", "sends", "expected"),
    [
        (KafkaError("its sender has gone"), 0, BusUnavailableError),
        (KafkaError("its sender has gone"), 1, DeliveryUnknownError),
        (NotLeaderForPartitionError(), 1, BusUnavailableError),
        (LeaderNotAvailableError(), 1, BusUnavailableError),
        (NotLeaderForPartitionError(), 2, DeliveryUnknownError),
        (TopicAuthorizationFailedError("t"), 1, BusError),
        (ClusterAuthorizationFailedError(), 1, BusError),
        (InvalidTopicError(), 1, BusError),
        (TopicAuthorizationFailedError("t"), 2, DeliveryUnknownError),
        (RequestTimedOutError(), 1, DeliveryUnknownError),
        (NotEnoughReplicasAfterAppendError(), 1, DeliveryUnknownError),
        (OutOfOrderSequenceNumber(), 1, DeliveryUnknownError),
        (BrokerResponseError(), 1, DeliveryUnknownError),
    ],
)
async def test_only_what_never_left_or_was_refused_at_its_only_try_is_told_as_not_written(
    error: KafkaError, sends: int, expected: type[BusError]
) -> None:
    assert type(await failed_with(error, sends=sends)) is expected


async def test_who_was_told_that_nothing_is_written_is_not_written_once_a_connection_is_there() -> None:
    client = Client()
    client.connected.clear()
    producer = producer_of(client, SHORT)
    with pytest.raises(BusUnavailableError):
        await producer.send(MESSAGE)
    client.connected.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert client.queued == 0
    await producer.stop()


async def test_what_stands_in_a_queue_when_time_runs_out_may_be_written_later() -> None:
    client = Client()
    producer = producer_of(client, SHORT)
    with pytest.raises(DeliveryUnknownError):
        await producer.send(MESSAGE)
    assert client.queued == 1
    await producer.stop()
