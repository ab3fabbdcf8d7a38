"""A replica that stops ends its event streams, also those that still wait for a broker or the database."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.bus.ports import BusUnavailableError
from headrace.contracts.ids import RequestAddress
from headrace.ingest.doors.event_stream import EventStream, Followed
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


def stream_of(result_of: Any, stopping: asyncio.Event) -> EventStream:
    clock = SimpleNamespace(now=lambda: SimpleNamespace(wall_ms=1_800_000_000_000))
    parts = SimpleNamespace(gateway=0, clock=clock, owners=SimpleNamespace(ask=nothing))
    front: Any = SimpleNamespace(
        ingest=SimpleNamespace(parts=parts, result_of=result_of),
        settings=SimpleNamespace(max_event_streams=10, lost_final_poll=timedelta(seconds=2)),
        streams=set(),
        stopping=stopping,
        reply_log=DeafLog,
    )
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
