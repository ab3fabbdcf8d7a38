"""Stopping an asyncio producer that has something left, on aiokafka's own queue of batches."""

import asyncio
import gc
from datetime import timedelta
from typing import Any, cast

from aiokafka import TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.producer.message_accumulator import MessageAccumulator

from headrace.bus.kafka import KafkaConnection
from headrace.bus.kafka.aiokafka_types import new_producer
from headrace.bus.kafka.async_clients import stop_producer
from headrace.bus.kafka.async_producer import KafkaAsyncProducer
from headrace.bus.kafka.lanes import Lane
from headrace.bus.messages import Place


def accumulator_of() -> Any:
    """An empty queue of batches."""
    cluster: Any = ClusterMetadata
    return cast("Any", MessageAccumulator)(cluster(), 1024, 0, 30, loop=asyncio.get_running_loop())


class Unanswered:
    """A producer that no broker answers."""

    def __init__(self, accumulator: Any) -> None:
        self._message_accumulator, self.client = accumulator, self
        self.closed = False

    async def flush(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        pass

    async def close(self) -> None:
        self.closed = True


async def test_a_batch_that_waits_to_be_sent_again_is_given_up_without_an_error_in_the_log() -> None:
    loop, told = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: told.append(context))
    where, accumulator = TopicPartition("t", 0), accumulator_of()
    builder = accumulator.create_builder()
    builder.append(timestamp=None, key=None, value=b"v")
    confirmed = await accumulator.add_batch(builder, where, 1)
    accumulator.reenqueue(accumulator._pop_batch(where))
    client: Any = Unanswered(accumulator)
    await stop_producer(client, timedelta(milliseconds=20))
    await asyncio.sleep(0)
    assert confirmed.exception() is not None
    assert told == []


async def test_nothing_that_was_given_up_is_told_as_never_retrieved() -> None:
    loop, told = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: told.append(context))
    where, accumulator = TopicPartition("t", 0), accumulator_of()
    builder = accumulator.create_builder()
    builder.append(timestamp=None, key=None, value=b"v")
    await accumulator.add_batch(builder, where, 1)  # its sender has gone: nobody waits
    client: Any = Unanswered(accumulator)
    await stop_producer(client, timedelta(milliseconds=20))
    del accumulator, client, builder
    gc.collect()
    await asyncio.sleep(0)
    assert told == []


async def test_a_sender_that_ends_badly_is_told_to_who_sends_and_not_to_the_log() -> None:
    loop, told = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: told.append(context))

    async def fails() -> None:
        raise KeyError("a batch that was given up")

    client: Any = new_producer({"bootstrap_servers": "127.0.0.1:1", "enable_idempotence": True})
    builder = client.create_batch()
    builder.append(timestamp=None, key=None, value=b"v")
    confirmed = await client._message_accumulator.add_batch(builder, TopicPartition("t", 0), 1)
    sender: Any = client._sender
    sender._sender_task = loop.create_task(fails())
    sender._sender_task.add_done_callback(sender._fail_all)
    await asyncio.wait({confirmed})
    assert isinstance(confirmed.exception(), KeyError)
    await stop_producer(client, timedelta(milliseconds=20))
    del client, sender, builder, confirmed
    gc.collect()
    await asyncio.sleep(0)
    assert told == []


async def never() -> None:
    await asyncio.Event().wait()


async def test_a_stop_that_is_cancelled_closes_its_client_all_the_same() -> None:
    producer: Any = KafkaAsyncProducer(
        KafkaConnection("127.0.0.1:1"), "test", timedelta(seconds=60), acks_all=True
    )
    client, place, loop = Unanswered(accumulator_of()), Place("t", 0), asyncio.get_running_loop()
    producer._client = client
    lane = producer._lanes[place] = Lane(place, loop)
    lane.task = sending = loop.create_task(never())
    stop = loop.create_task(producer.stop())
    await asyncio.sleep(0)
    stop.cancel()
    await asyncio.wait({stop})
    assert (stop.cancelled(), sending.cancelled(), client.closed) == (True, True, True)
