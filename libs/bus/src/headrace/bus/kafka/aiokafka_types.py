"""aiokafka's clients with types, as far as they are used. Called by the async adapters; aiokafka itself is untyped."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition

from headrace.bus.messages import Place


class Client(Protocol):
    """What both of aiokafka's clients have."""

    async def start(self) -> None:
        """Connect."""
        ...

    async def stop(self) -> None:
        """Disconnect."""
        ...


class Batch(Protocol):
    """aiokafka's BatchBuilder."""

    def append(
        self,
        *,
        timestamp: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]],
    ) -> object:
        """Add one; None when it is full."""
        ...

    def close(self) -> None:
        """Take no more."""
        ...


class BatchConfirmed(Protocol):
    """aiokafka's RecordMetadata of a batch."""

    offset: int


class ProducerClient(Client, Protocol):
    """aiokafka's producer, as far as it is used."""

    def create_batch(self) -> Batch:
        """An empty batch."""
        ...

    async def send_batch(self, batch: Batch, topic: str, *, partition: int) -> Awaitable[BatchConfirmed]:
        """Hand a batch over."""
        ...


class HandedOver:
    """The batch that was handed over last, in the client's queue or sent. Make it before anything else is awaited."""

    def __init__(self, client: ProducerClient, place: Place) -> None:
        inner: Any = client
        self._queues = inner._message_accumulator._batches  # noqa: SLF001 - its inside has no types
        self._where = TopicPartition(place.topic, place.partition)
        self._batch = self._queues[self._where][-1]

    def take_back(self) -> int:
        """Once it has failed: how often it was taken to be sent. It won't be from now on."""
        queue = self._queues.get(self._where, ())
        if self._batch in queue:
            queue.remove(self._batch)
            if not queue:
                del self._queues[self._where]
        return int(self._batch.retry_count)


class FoundByTime(Protocol):
    """aiokafka's OffsetAndTimestamp."""

    offset: int


class Cluster(Protocol):
    """aiokafka's ClusterMetadata."""

    def topics(self) -> set[str]:
        """Names of topics."""
        ...

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Its partitions."""
        ...


class ConsumerClient(Client, Protocol):
    """aiokafka's consumer, as far as it is used."""

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read exactly these."""
        ...

    def unsubscribe(self) -> None:
        """Read nothing."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from there."""
        ...

    async def getmany(
        self, *, timeout_ms: int, max_records: int
    ) -> Mapping[TopicPartition, list[ConsumerRecord[bytes, bytes]]]:
        """Records by partition."""
        ...

    async def position(self, partition: TopicPartition) -> int:
        """The next offset."""
        ...

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """First offsets."""
        ...

    async def end_offsets(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Last stable offsets."""
        ...

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, FoundByTime | None]:
        """Offsets by time."""
        ...


def new_producer(settings: Mapping[str, Any]) -> ProducerClient:
    """An aiokafka producer, typed. Call it in the event loop that will use it."""
    untyped: Any = AIOKafkaProducer
    client: ProducerClient = untyped(**settings)
    _mend_idempotence(client)
    return client


def _mend_idempotence(untyped: Any) -> None:  # noqa: ANN401 - its inside has no types
    """A sender that ends badly tells the transaction, and fails where there is none: here is one that nobody waits for."""
    manager = untyped._txn_manager  # noqa: SLF001
    if manager is not None:
        manager._transaction_waiter = asyncio.get_running_loop().create_future()  # noqa: SLF001
        manager._transaction_waiter.add_done_callback(asyncio.Future.exception)  # noqa: SLF001


def new_consumer(settings: Mapping[str, Any]) -> ConsumerClient:
    """An aiokafka consumer, typed. Call it in the event loop that will use it."""
    untyped: Any = AIOKafkaConsumer
    client: ConsumerClient = untyped(**settings)
    return client


def inner_client(client: Client) -> Any:  # noqa: ANN401 - aiokafka has no types
    """What holds the connections: aiokafka's AIOKafkaClient."""
    untyped: Any = client
    return getattr(untyped, "client", None) or untyped._client  # noqa: SLF001


async def all_places(client: ProducerClient | ConsumerClient) -> set[Place]:
    """All partitions as the brokers have them now. Raises aiokafka's KafkaError.

    aiokafka's own public calls wait long for a topic that doesn't exist, or don't tell its partitions.
    """
    cluster: Cluster = await inner_client(client).fetch_all_metadata()
    return {
        Place(topic, number)
        for topic in cluster.topics()
        for number in cluster.partitions_for_topic(topic) or ()
    }
