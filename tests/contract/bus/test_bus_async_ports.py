"""What AsyncProducer and AsyncReader promise, on both buses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import (
    END,
    START,
    AsyncProducer,
    AsyncReader,
    BusError,
    PositionGoneError,
    TooLargeError,
)
from tests.contract.bus.conftest import DELIVERY, SOON, Bench
from tests.support.eventually import eventually, eventually_async
from tests.support.log_ends import trim

NONE_COMES = timedelta(milliseconds=300)


@asynccontextmanager
async def producing(bench: Bench, *, acks_all: bool = True) -> AsyncIterator[AsyncProducer]:
    producer = bench.bus.async_producer("producer", delivery_timeout=DELIVERY, acks_all=acks_all)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


@asynccontextmanager
async def reading(bench: Bench, *places: Place, position: int = START) -> AsyncIterator[AsyncReader]:
    reader = bench.bus.async_reader("reader")
    await reader.start()
    try:
        await reader.assign(dict.fromkeys(places, position))
        yield reader
    finally:
        await reader.stop()


async def read(reader: AsyncReader, count: int) -> list[Received]:
    found: list[Received] = []

    async def enough() -> bool:
        found.extend(await reader.read(count - len(found), SOON))
        return len(found) >= count

    await eventually_async(enough, f"{count} records")
    return found


async def values(reader: AsyncReader, count: int) -> list[bytes | None]:
    return [record.value for record in await read(reader, count)]


def message(place: Place, value: bytes | None, key: bytes | None = None) -> Message:
    return Message(place.topic, place.partition, value, (("headrace", b"{}"), ("a", b"\xff")), key)


@pytest.mark.parametrize("acks_all", [True, False])
async def test_sends_of_one_partition_keep_their_order_and_tell_their_offsets(
    bench: Bench, acks_all: bool
) -> None:
    first, second = bench.topic("t", partitions=2)
    async with producing(bench, acks_all=acks_all) as producer, reading(bench, first, second) as reader:
        sends = [producer.send(message((first, second)[n % 2], b"%d" % n, b"key")) for n in range(400)]
        assert await asyncio.gather(*sends) == [n // 2 for n in range(400)]
        found = await read(reader, 400)
        for number, place in enumerate((first, second)):
            of_place = [one.value for one in found if one.place == place]
            assert of_place == [b"%d" % n for n in range(number, 400, 2)]
        assert found[0].headers == (("headrace", b"{}"), ("a", b"\xff"))
        assert found[0].key == b"key"


async def test_a_tombstone_and_an_empty_value_stay_apart(bench: Bench) -> None:
    (place,) = bench.topic("t")
    async with producing(bench) as producer, reading(bench, place) as reader:
        await producer.send(message(place, None, b"key"))
        await producer.send(message(place, b""))
        assert await values(reader, 2) == [None, b""]


async def test_cancelling_a_caller_does_not_unsend_nor_hurt_its_neighbours(bench: Bench) -> None:
    (place,) = bench.topic("t")
    async with producing(bench) as producer, reading(bench, place) as reader:
        tasks = [asyncio.create_task(producer.send(message(place, b"%d" % n))) for n in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert (done[0], done[2]) == (0, 2)
        assert await values(reader, 3) == [b"0", b"1", b"2"]


async def test_what_is_too_large_or_has_no_topic_is_refused_and_the_producer_goes_on(bench: Bench) -> None:
    (place,) = bench.topic("t", room=10_000)
    async with producing(bench) as producer:
        assert await producer.send(message(place, b"before")) == 0
        with pytest.raises(TooLargeError):
            await producer.send(message(place, bytes(11_000)))
        assert await producer.send(message(place, b"after")) == 1
        for unknown in (Place(place.topic, 9), Place(place.topic + ".no", 0)):
            with pytest.raises(BusError) as refused:
                await producer.send(message(unknown, b"x"))
            assert type(refused.value) is BusError
        with pytest.raises(TooLargeError):
            await producer.send(message(place, bytes(9 * 1024 * 1024)))
        assert await producer.send(message(place, b"after all")) == 2


async def test_the_largest_message_of_the_table_goes_through_asyncio(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    payload = bytes(8 * 1024 * 1024)
    async with producing(bench) as producer, reading(bench, first, second) as reader:
        await asyncio.gather(producer.send(message(first, payload)), producer.send(message(second, payload)))
        assert await values(reader, 2) == [payload, payload]


async def test_a_reader_starts_where_it_is_told_to_and_is_woken_from_another_thread(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, b"0", b"1")
    async with reading(bench, place, position=END) as reader:
        assert await reader.position(place) == 2
        waiting = asyncio.create_task(reader.read(10, timedelta(seconds=20)))
        await asyncio.to_thread(bench.write, place, b"2")
        assert [one.value for one in await waiting] == [b"2"]
        assert await reader.position(place) == 3
        await reader.assign({place: 1})
        assert await values(reader, 2) == [b"1", b"2"]
        assert await reader.read(10, NONE_COMES) == []
        await reader.assign({})
        assert await reader.read(10, SOON) == []


async def test_a_reader_that_is_started_again_reads_on(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, b"0")
    async with reading(bench, place, position=START) as reader:
        await reader.start()
        assert await values(reader, 1) == [b"0"]


async def test_uncommitted_records_are_not_seen_and_markers_are_passed(bench: Bench) -> None:
    (place,) = bench.topic("t")
    state = bench.bus.fenced_state("owner", place=place, transactional_id=f"{place.topic}.owner")
    eventually(state.claim, "the claim")
    async with reading(bench, place) as reader:
        state.begin([message(place, b"1", b"a")])
        assert await reader.read(10, NONE_COMES) == []
        assert await reader.ends([place]) == {place: 0}
        eventually(state.committed, "the commit")
        assert await values(reader, 1) == [b"1"]
        assert await reader.ends([place]) == {place: 2}

        async def at_end() -> bool:
            await reader.read(1, timedelta(milliseconds=50))
            return await reader.position(place) == 2

        await eventually_async(at_end, "the position past the marker")
    state.close()


async def test_ends_and_times_are_the_brokers(bench: Bench) -> None:
    first, second = bench.topic("t", partitions=2)
    async with producing(bench) as producer, reading(bench, first) as reader:
        await producer.send(message(first, b"0"))
        (record,) = await read(reader, 1)
        await asyncio.sleep(0.01)
        await producer.send(message(first, b"1"))
        assert await reader.ends([first, second]) == {first: 2, second: 0}
        assert await reader.at_time(first, record.timestamp_ms - 1000) == 0
        assert await reader.at_time(first, record.timestamp_ms) == 0
        assert await reader.at_time(first, record.timestamp_ms + 1) == 1
        assert await reader.at_time(first, record.timestamp_ms + 60_000) == 2
        with pytest.raises(BusError):
            await reader.ends([Place(first.topic + ".no", 0)])


async def test_a_trimmed_position_is_gone_for_an_async_reader_too(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, b"0", b"1", b"2")
    trim(bench.bus, {place: 2})
    async with reading(bench, place, position=1) as reader:
        for _ in range(2):
            with pytest.raises(PositionGoneError) as gone:
                await reader.read(10, timedelta(seconds=10))
            assert (gone.value.place, gone.value.position) == (place, 1)
        await reader.assign({place: START})
        assert await values(reader, 1) == [b"2"]


async def test_an_unknown_topic_or_partition_cannot_be_assigned(bench: Bench) -> None:
    (place,) = bench.topic("t")
    async with reading(bench) as reader:
        for unknown in (Place(place.topic + ".no", 0), Place(place.topic, 1)):
            with pytest.raises(BusError, match=r"topics apply|no partition"):
                await reader.assign({unknown: START})


async def test_a_reader_of_nothing_reads_nothing(bench: Bench) -> None:
    (place,) = bench.topic("t")
    bench.write(place, b"x")
    reader = bench.bus.async_reader("reader")
    await reader.start()
    try:
        assert await reader.read(1, SOON) == []
        await reader.assign({place: START})
        assert [one.value for one in await reader.read(1, timedelta(seconds=20))] == [b"x"]
        await reader.assign({})
        assert await reader.read(1, SOON) == []
    finally:
        await reader.stop()


async def test_nothing_works_before_start(bench: Bench) -> None:
    (place,) = bench.topic("t")
    producer = bench.bus.async_producer("producer", delivery_timeout=DELIVERY)
    reader = bench.bus.async_reader("reader")
    with pytest.raises(BusError):
        await producer.send(message(place, b"x"))
    with pytest.raises(BusError):
        await reader.read(1, SOON)
