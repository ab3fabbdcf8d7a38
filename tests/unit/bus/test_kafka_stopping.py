"""Stopping an asyncio producer that has something left, on aiokafka's own queue of batches."""

import asyncio
import gc
from datetime import timedelta
from typing import Any, cast

from aiokafka import TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.producer.message_accumulator import MessageAccumulator

from headrace.bus.kafka.async_clients import stop_producer


class Unanswered:
    """A producer that no broker answers."""

    def __init__(self, accumulator: Any) -> None:
        self._message_accumulator, self.client = accumulator, self

    async def flush(self) -> None:
        await asyncio.Event().wait()

    async def stop(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def test_a_batch_that_waits_to_be_sent_again_is_given_up_without_an_error_in_the_log() -> None:
    loop, told = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: told.append(context))
    where = TopicPartition("t", 0)
    made, cluster = cast("Any", MessageAccumulator), cast("Any", ClusterMetadata)
    accumulator = made(cluster(), 1024, 0, 30, loop=loop)
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
    where, made, cluster = (
        TopicPartition("t", 0),
        cast("Any", MessageAccumulator),
        cast("Any", ClusterMetadata),
    )
    accumulator = made(cluster(), 1024, 0, 30, loop=loop)
    builder = accumulator.create_builder()
    builder.append(timestamp=None, key=None, value=b"v")
    await accumulator.add_batch(builder, where, 1)  # its sender has gone: nobody waits
    client: Any = Unanswered(accumulator)
    await stop_producer(client, timedelta(milliseconds=20))
    del accumulator, client, builder
    gc.collect()
    await asyncio.sleep(0)
    assert told == []
