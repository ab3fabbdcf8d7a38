"""A replica that stops ends its event streams, also those that still wait for a broker or the database."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.bus.ports import BusUnavailableError
from headrace.contracts.ids import RequestAddress
from headrace.ingest.doors.event_stream import EventStream, Followed
from headrace.ingest.doors.front import OPENING_AT_ONCE
from headrace.ingest.refusal import Refusal
from tests.support.eventually import eventually_async


class DeafLog:
    """No broker answers."""

    async def start(self, _: int, **__: Any) -> None:
        raise BusUnavailableError("no Kafka broker answers")

    async def stop(self) -> None:
        pass


async def nothing(*_: Any, **__: Any) -> None:
    return None


async def never(*_: Any, **__: Any) -> None:
    await asyncio.Event().wait()


def front_of(result_of: Any, stopping: asyncio.Event, reply_log: Any = DeafLog, limit: int = 10) -> Any:
    clock = SimpleNamespace(now=lambda: SimpleNamespace(wall_ms=1_800_000_000_000))
    parts = SimpleNamespace(gateway=0, clock=clock, owners=SimpleNamespace(ask=nothing))
    return SimpleNamespace(
        ingest=SimpleNamespace(parts=parts, result_of=result_of),
        settings=SimpleNamespace(max_event_streams=limit, lost_final_poll=timedelta(seconds=2)),
        streams=set(),
        stopping=stopping,
        reply_log=reply_log,
        opening=asyncio.Semaphore(OPENING_AT_ONCE),
    )


def stream_of(result_of: Any, stopping: asyncio.Event) -> EventStream:
    return stream_at(front_of(result_of, stopping))


def stream_at(front: Any) -> EventStream:
    return EventStream(
        front, Followed("req_a", "t", RequestAddress("p", "batch", 0, 1_800_000_000_000), None)
    )


async def told(stream: EventStream, sent: list[Any]) -> None:
    async def send(message: Any) -> None:
        sent.append(message)

    await stream({}, never, send)  # type: ignore[arg-type] # a caller who stays says nothing


async def test_a_stream_that_waits_for_a_broker_ends_when_the_replica_stops() -> None:
    stopping, sent = asyncio.Event(), list[Any]()
    task = asyncio.create_task(told(stream_of(nothing, stopping), sent))

    async def begun() -> bool:
        return len(sent) >= 2

    await eventually_async(begun, "its status is told")
    stopping.set()
    await asyncio.wait_for(task, 20)
    assert sent[-1] == {"type": "http.response.body", "body": b""}


async def test_a_stream_that_has_not_begun_is_refused_when_the_replica_stops() -> None:
    stopping, sent = asyncio.Event(), list[Any]()
    task = asyncio.create_task(told(stream_of(never, stopping), sent))
    stopping.set()
    with pytest.raises(Refusal) as refused:
        await asyncio.wait_for(task, 20)
    assert (refused.value.status, refused.value.code, sent) == (503, "replica_stopping", [])


class SlowLog(DeafLog):
    """A broker that says nothing, and a client that takes its time to close."""

    def __init__(self, starting: list[object], may_close: asyncio.Event) -> None:
        self._starting, self._may_close = starting, may_close

    async def start(self, _: int, **__: Any) -> None:
        self._starting.append(self)
        await never()

    async def stop(self) -> None:
        await self._may_close.wait()


async def test_no_more_streams_connect_at_a_time_than_there_are_turns() -> None:
    starting, may_close, sent = list[object](), asyncio.Event(), list[Any]()
    may_close.set()
    front = front_of(nothing, asyncio.Event(), lambda: SlowLog(starting, may_close), 2 * OPENING_AT_ONCE)
    tasks = [asyncio.create_task(told(stream_at(front), sent)) for _ in range(2 * OPENING_AT_ONCE)]

    async def all_told() -> bool:
        return len(sent) == 2 * len(tasks)

    await eventually_async(all_told, "each has its status")
    assert len(starting) == OPENING_AT_ONCE
    for task in tasks[:OPENING_AT_ONCE]:
        task.cancel()

    async def next_begin() -> bool:
        return len(starting) == 2 * OPENING_AT_ONCE

    await eventually_async(next_begin, "the next have their turn")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert front.streams == set()


async def test_a_stream_that_has_left_takes_room_until_its_reader_is_closed() -> None:
    starting, may_close, sent = list[object](), asyncio.Event(), list[Any]()
    front = front_of(nothing, asyncio.Event(), lambda: SlowLog(starting, may_close), 1)
    leaves = asyncio.create_task(told(stream_at(front), sent))

    async def waits() -> bool:
        return len(starting) == 1

    await eventually_async(waits, "it connects")
    leaves.cancel()
    await asyncio.sleep(0)
    with pytest.raises(Refusal) as refused:
        await told(stream_at(front), sent)
    assert (refused.value.status, refused.value.code, refused.value.retry_after) == (503, "overloaded", 5)
    may_close.set()
    await asyncio.gather(leaves, return_exceptions=True)
    assert front.streams == set()
