"""Junk in a lane: its letters go out together, and the position passes it only after the last is confirmed."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import cast

from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import AsyncProducer, AsyncReader, BusUnavailableError
from headrace.contracts.clock import Now
from headrace.contracts.codec import HEADER, decode, encode
from headrace.contracts.commands import Ping
from headrace.contracts.failures import FailureKind
from headrace.contracts.topics import TopicKind
from headrace.inference_worker.lane import Lane
from headrace.inference_worker.protocol.inputs import LaneLost, LaneRead
from headrace.inference_worker.protocol.outputs import FollowLane

LANE, DLQ = Place("work", 0), Place("dlq", 0)
JUNK = 60


class StandingClock:
    """Always the same instant."""

    def now(self) -> Now:
        return Now(1_700_000_000_000, 0)


class OneBatch:
    """A reader that has one batch, and then nothing for ever."""

    def __init__(self, records: list[Received]) -> None:
        self._records = records

    async def assign(self, positions: Mapping[Place, int]) -> None:
        assert positions == {LANE: 0}

    async def read(self, most: int, wait: timedelta) -> list[Received]:  # noqa: ARG002 - as the port has it
        if not self._records:
            await asyncio.Event().wait()
        found, self._records = self._records, []
        return found


class Together:
    """A producer that confirms nothing before so many letters are on their way; the first of them fails once."""

    def __init__(self, count: int) -> None:
        self._count, self._failed = count, False
        self._all_there = asyncio.Event()
        self.waiting = 0
        self.written: list[Message] = []

    async def send(self, message: Message) -> int:
        self.waiting += 1
        if self.waiting >= self._count:
            self._all_there.set()
        await self._all_there.wait()
        if not self._failed:
            self._failed = True
            raise BusUnavailableError("the broker is away")
        self.written.append(message)
        return len(self.written)


async def test_a_flood_of_junk_costs_one_wait_and_hides_no_command() -> None:
    headers = [b"{junk"] * (JUNK - 1) + [encode(Ping(number=4, epoch=1))] + [b"[]"]
    records = [Received("work", 0, n, 0, b"v", ((HEADER, header),), None) for n, header in enumerate(headers)]
    records.append(Received("work", 0, JUNK + 1, 0, None, (), None))
    producer, told = Together(JUNK + 1), asyncio.Queue[LaneRead | LaneLost]()
    reader = cast("AsyncReader", OneBatch(records))
    lane = Lane(reader, cast("AsyncProducer", producer), dlq=DLQ, clock=StandingClock(), told=told.put_nowait)
    following = asyncio.create_task(lane.follow(FollowLane("boot", 0, 0), LANE))
    async with asyncio.timeout(20):
        read = await told.get()
    following.cancel()
    assert read == LaneRead("boot", JUNK + 2, (Ping(number=4, epoch=1),))
    reasons = [decode(TopicKind.DLQ, dict(letter.headers)[HEADER]).reason for letter in producer.written]
    assert sorted(reasons) == sorted([FailureKind.UNDECODABLE] * JUNK + [FailureKind.EMPTY_RECORD])
