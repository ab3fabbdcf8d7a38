"""AsyncProducer on aiokafka. Made by KafkaBus; belongs to the event loop that started it.

Sends of one partition that are waiting go as one batch, which costs a fraction of aiokafka's own send for each.
Invariant: after any batch failed, the client is replaced: its sequence numbers have a gap.
An error that isn't in the tables is taken for "may have been written"; so is one that is, after the batch was sent twice.
"""

import asyncio
from datetime import timedelta
from typing import Any

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    LeaderNotAvailableError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from headrace.bus.kafka.aiokafka_types import HandedOver, ProducerClient, all_places, new_producer
from headrace.bus.kafka.async_clients import (
    REQUEST_TIMEOUT_AT_LEAST,
    REQUEST_TIMEOUT_AT_MOST,
    started,
    stop_producer,
    wholly,
)
from headrace.bus.kafka.connection import MAX_MESSAGE_BYTES, KafkaConnection, milliseconds
from headrace.bus.kafka.lanes import Lane, Pending, size_of
from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusError, BusUnavailableError, DeliveryUnknownError, TooLargeError

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_REFUSED: dict[type[Exception], str] = {
    # a broker looks at rights and names before it appends anything of a batch
    TopicAuthorizationFailedError: "writing there isn't allowed",
    ClusterAuthorizationFailedError: "writing without duplicates isn't allowed",
    InvalidTopicError: "there can be no such topic",
}
_NO_LEADER = (NotLeaderForPartitionError, LeaderNotAvailableError)
"""Said by a broker that isn't the leader, and by a client that has had nobody to send to for as long as it waits."""


class KafkaAsyncProducer:
    """As ports.AsyncProducer."""

    def __init__(
        self, connection: KafkaConnection, name: str, delivery_timeout: timedelta, *, acks_all: bool
    ) -> None:
        self._timeout = delivery_timeout
        request_timeout = min(max(delivery_timeout, REQUEST_TIMEOUT_AT_LEAST), REQUEST_TIMEOUT_AT_MOST)
        self._settings: dict[str, Any] = connection.aiokafka(name) | {
            "enable_idempotence": acks_all,
            "acks": "all" if acks_all else 1,
            "request_timeout_ms": milliseconds(request_timeout),
            "retry_backoff_ms": 50,
            "max_batch_size": 2 * MAX_MESSAGE_BYTES,
            "max_request_size": 2 * MAX_MESSAGE_BYTES,
        }
        self._client: ProducerClient | None = None
        self._lanes: dict[Place, Lane] = {}
        self._known: set[Place] = set()
        self._running = False
        self._replacing = asyncio.Lock()
        self._retired: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """As AsyncProducer.start."""
        self._client = await started(lambda: new_producer(self._settings))
        self._running = True

    async def send(self, message: Message) -> int:
        """As AsyncProducer.send."""
        if not self._running:
            raise BusError("this producer isn't started")
        if size_of(message) > MAX_MESSAGE_BYTES:
            raise TooLargeError(f"a message is larger than any topic takes: {MAX_MESSAGE_BYTES} bytes")
        loop = asyncio.get_running_loop()
        lane = self._lanes.get(message.place)
        if lane is None:
            lane = self._lanes[message.place] = Lane(message.place, loop)
        future = lane.add(message, self._timeout)
        if lane.task is None:
            lane.task = loop.create_task(self._empty(lane))
        return await future

    async def _empty(self, lane: Lane) -> None:
        try:
            while batch := lane.take():
                await self._deliver(lane.place, batch)
        finally:
            lane.task = None

    async def _deliver(self, place: Place, batch: list[Pending]) -> None:
        client: ProducerClient | None = None
        try:
            client = await self._sound_client()
            await self._check_exists(client, place)
            batch = [pending for pending in batch if not pending.given_up]
            offset = await _send(client, place, batch) if batch else 0
        except Exception as error:  # noqa: BLE001 - whatever it was, somebody waits for an answer
            await self._failed(client, place, batch, error)
        else:
            for index, pending in enumerate(batch):
                pending.succeed(offset + index)

    async def _check_exists(self, client: ProducerClient, place: Place) -> None:
        if place not in self._known:
            self._known = await all_places(client)
        if place not in self._known:
            raise BusError(f"there is no {place.topic}/{place.partition}; run `headrace topics apply`")

    async def _failed(
        self, client: ProducerClient | None, place: Place, batch: list[Pending], error: Exception
    ) -> None:
        if client is not None and batch[0].handed_over:
            self._retire(client, self._timeout)
        if isinstance(error, _TOO_LARGE) and len(batch) > 1:
            for pending in batch:
                await self._deliver(place, [pending])
            return
        for pending in batch:
            pending.fail(_bus_error(error, place, handed_over=pending.handed_over))

    async def _sound_client(self) -> ProducerClient:
        if self._client is not None:
            return self._client
        async with self._replacing:
            if self._client is None:
                self._client = await started(lambda: new_producer(self._settings))
            return self._client

    def _retire(self, client: ProducerClient, within: timedelta) -> None:
        if self._client is client:
            self._client = None
            task = asyncio.get_running_loop().create_task(stop_producer(client, within))
            self._retired.add(task)
            task.add_done_callback(self._retired.discard)

    async def stop(self) -> None:
        """As AsyncProducer.stop; the bound is the delivery timeout. Cancelled, it waits for no more confirmations, but closes
        its clients all the same.
        """
        self._running = False
        try:
            if tasks := self._sending():
                await asyncio.wait(tasks, timeout=self._timeout.total_seconds())
        finally:
            await wholly(self._let_go())

    def _sending(self) -> list[asyncio.Task[None]]:
        return [lane.task for lane in self._lanes.values() if lane.task is not None]

    async def _let_go(self) -> None:
        unfinished = self._sending()
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        for lane in self._lanes.values():
            lane.close()
        if self._client is not None:
            self._retire(self._client, REQUEST_TIMEOUT_AT_LEAST)
        await asyncio.gather(*self._retired, return_exceptions=True)


async def _send(client: ProducerClient, place: Place, batch: list[Pending]) -> int:
    builder = client.create_batch()
    for pending in batch:
        message = pending.message
        builder.append(timestamp=None, key=message.key, value=message.value, headers=list(message.headers))
    builder.close()
    for pending in batch:
        pending.handed_over = True
    confirmed = await client.send_batch(builder, place.topic, partition=place.partition)
    handed_over = HandedOver(client, place)
    try:
        return (await confirmed).offset
    except Exception as error:
        not_written = _not_written(error, f"{place.topic}/{place.partition}", sends=handed_over.take_back())
        if not_written is None:
            raise
        raise not_written from error


def _not_written(error: Exception, where: str, *, sends: int) -> BusError | None:
    """Why nothing was written of a batch that failed so after it was sent so often; None: nobody knows whether it was."""
    if sends <= 1 and type(error) in _REFUSED:
        return BusError(f"nothing was written to {where}: {_REFUSED[type(error)]}")
    if sends == 0 or (sends == 1 and isinstance(error, _NO_LEADER)):
        return BusUnavailableError(f"nothing was written to {where}: {error!r}")
    return None


def _bus_error(error: Exception, place: Place, *, handed_over: bool) -> BusError:
    where = f"{place.topic}/{place.partition}"
    if isinstance(error, BusError):
        return error
    if isinstance(error, _TOO_LARGE):
        return TooLargeError(f"a message is larger than {where} takes")
    if handed_over:
        return DeliveryUnknownError(f"a write to {where} wasn't confirmed: {error!r}")
    return BusUnavailableError(f"nothing was written to {where}: {error!r}")
