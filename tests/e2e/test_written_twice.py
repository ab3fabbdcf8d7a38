"""A request whose record a producer wrote twice runs once: while it waits or runs, when it has ended, and over a takeover."""

import asyncio
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from headrace.cli.stack.processes import Stack
from headrace.contracts.codec import HEADER
from tests.e2e.conftest import Journal
from tests.support.callers import Caller, chat_body
from tests.support.eventually import eventually, eventually_async
from tests.support.stacks import rows_of

pytestmark = pytest.mark.kafka

TOPIC = "requests.main.standard"


def record_of(stack: Stack, request_id: str) -> Message:
    """The first record of this request, as it stands in the log."""
    settings = {"bootstrap.servers": stack.bootstrap, "group.id": "test-looks", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        name = stack.prefix + TOPIC
        partitions = consumer.list_topics(name, timeout=10).topics[name].partitions
        consumer.assign([TopicPartition(name, number, 0) for number in partitions])

        def found() -> Message | None:
            message = consumer.poll(1)
            headers = dict(message.headers() or ()) if message is not None else {}
            return message if request_id.encode() in (headers.get(HEADER) or b"") else None

        record = eventually(found, "its record")
    assert record is not None
    return record


def write_again(stack: Stack, record: Message) -> None:
    """As a producer does that lost track of itself."""
    producer = Producer({"bootstrap.servers": stack.bootstrap})
    partition, headers = record.partition(), record.headers()
    assert partition is not None
    assert isinstance(headers, list)
    producer.produce(stack.prefix + TOPIC, record.value(), partition=partition, headers=headers)
    assert producer.flush(20) == 0


async def pass_by(caller: Caller) -> None:
    """Another request of the tenant: once it has ended, what stood before it in the log has been read."""
    request_id = await caller.submit(chat_body("another", model="fake", max_tokens=2), tier="standard")
    assert (await caller.ended(request_id)).http_status == 200


async def is_running(caller: Caller, request_id: str) -> bool:
    return bool((await caller.status(request_id))["status"] == "running")


async def test_a_record_that_was_written_twice_runs_once(stack: Stack, journal: Journal) -> None:
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        slow = chat_body("written twice [[fault:slow:150]]", model="fake", max_tokens=12)
        request_id = await atlas.submit(slow, tier="standard")
        record = await asyncio.to_thread(record_of, stack, request_id)
        await asyncio.to_thread(write_again, stack, record)
        await pass_by(atlas)  # the copy was read while the first runs
        assert (await atlas.ended(request_id)).http_status == 200
        await asyncio.to_thread(write_again, stack, record)
        await pass_by(atlas)  # the copy was read when the first had ended
        stack.scheduler.kill()
        await asyncio.to_thread(write_again, stack, record)
        await asyncio.to_thread(stack.scheduler.restart)
        await asyncio.to_thread(write_again, stack, record)
        await pass_by(atlas)  # both were read by another owner
    assert len(journal.with_text("written twice")) == 1
    for table in ("results", "ledger", "requests"):
        query = f"SELECT id FROM {table} WHERE id = '{request_id}'"  # noqa: S608
        await asyncio.to_thread(
            eventually, lambda query=query: rows_of(stack, query) == [(request_id,)], f"one row in {table}"
        )


async def test_a_copy_that_is_read_by_another_owner_while_the_first_runs_does_not_run(
    stack: Stack, journal: Journal
) -> None:
    async with Caller(stack.url, stack.keys["birch"]) as birch:
        slow = chat_body("over a takeover [[fault:slow:400]]", model="fake", max_tokens=20)
        request_id = await birch.submit(slow, tier="standard")
        record = await asyncio.to_thread(record_of, stack, request_id)
        await eventually_async(lambda: is_running(birch, request_id), "it runs")
        stack.scheduler.kill()
        await asyncio.to_thread(write_again, stack, record)
        await asyncio.to_thread(stack.scheduler.restart)
        await pass_by(birch)
        assert (await birch.ended(request_id)).http_status == 200
    assert len(journal.with_text("over a takeover")) == 1
