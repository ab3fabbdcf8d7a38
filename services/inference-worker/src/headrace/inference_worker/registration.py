"""Looks at the logs before and while a boot registers: who is in which lane, and the newest epoch. Called by the service.

Invariant: positions and epochs come from the broker's answer now, never from what was read earlier.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from headrace.bus.messages import Place, Received
from headrace.bus.ports import AsyncReader, Bus, BusError
from headrace.contracts.checkpoints import Ownership
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.durations import ms
from headrace.contracts.reports import WorkerRecord
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.inference_worker.decisions.is_name_taken import others_of
from headrace.inference_worker.decisions.pick_lane import pick_lane
from headrace.runtime.clock import Clock

_BATCH, _WAIT = 1000, timedelta(milliseconds=200)
_RECENT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this worker is: its name, pool, and how many lanes the pool has."""

    worker: str
    pool: str
    lanes: int


class NameTakenError(BusError):
    """Another worker goes by this name: this one must not take part. It looks again, since the other may leave."""


class Registration:
    """Reads `workers` and `state` with readers of its own, each only for as long as it is needed."""

    def __init__(self, bus: Bus, names: TopicNames, identity: Identity, clock: Clock) -> None:
        self._bus, self._identity, self._clock = bus, identity, clock
        self._workers = Place(names.of(TopicKind.WORKERS, pool=identity.pool), 0)
        self._state = Place(names.of(TopicKind.STATE, pool=identity.pool), 0)
        self._work = names.of(TopicKind.WORK, pool=identity.pool)

    def lane(self, number: int) -> Place:
        """The lane's place."""
        return Place(self._work, number)

    async def refuse_a_twin(
        self, silent_after: timedelta, *, own: Collection[str], within: timedelta
    ) -> None:
        """Listens `within` to who of this name was heard in the last `silent_after`; `own` are this process's boots. Raises
        NameTakenError, BusError.
        """
        async with self._reader() as reader:
            since = await reader.at_time(self._workers, self._clock.now().wall_ms - ms(silent_after))
            records, end = await self._records(reader, since)
            if others_of(records, worker=self._identity.worker, own=own):
                await asyncio.sleep(within.total_seconds())
                self._refuse((await self._records(reader, end))[0], own)

    async def find_lane(self, silent_after: timedelta) -> tuple[int, int]:
        """The lane with the fewest live workers, and its end. Raises BusError."""
        async with self._reader() as reader:
            since = await reader.at_time(self._workers, self._clock.now().wall_ms - ms(silent_after))
            records, _ = await self._records(reader, since)
            lane = pick_lane(records, lanes=self._identity.lanes, worker=self._identity.worker)
            ends = await reader.ends([self.lane(lane)])
            return lane, ends[self.lane(lane)]

    async def _records(self, reader: AsyncReader, since: int) -> tuple[list[WorkerRecord], int]:
        """What stands in `workers` from there to its end now, and that end."""
        found, end = [], since
        async for received in _to_end(reader, self._workers, since):
            end = received.offset + 1
            if (record := _worker_record(received)) is not None:
                found.append(record)
        return found, end

    def _refuse(self, records: list[WorkerRecord], own: Collection[str]) -> None:
        worker, pool = self._identity.worker, self._identity.pool
        if others_of(records, worker=worker, own=own):
            raise NameTakenError(
                f"another worker of the pool {pool} is named {worker} and reports: give each its own HEADRACE_NAME"
            )

    async def newest_epoch(self) -> int:
        """The greatest epoch in `state`, 0 when nobody has owned the pool yet. Raises BusError.

        Epochs only grow along the log, so the last minutes tell it, unless nobody was in charge for so long.
        """
        async with self._reader() as reader:
            since = await reader.at_time(self._state, self._clock.now().wall_ms - ms(_RECENT))
            return await self._epoch_from(reader, since) or await self._epoch_from(
                reader, await reader.at_time(self._state, 0)
            )

    async def _epoch_from(self, reader: AsyncReader, since: int) -> int:
        epoch = 0
        async for received in _to_end(reader, self._state, since):
            epoch = max(epoch, _epoch_of(received))
        return epoch

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[AsyncReader]:
        reader = self._bus.async_reader(f"{self._identity.worker}-looks")
        await reader.start()
        try:
            yield reader
        finally:
            await reader.stop()


async def _to_end(reader: AsyncReader, place: Place, since: int) -> AsyncIterator[Received]:
    """What stands between `since` and the end noted now."""
    end = (await reader.ends([place]))[place]
    if since >= end:
        return
    await reader.assign({place: since})
    while await reader.position(place) < end:
        for received in await reader.read(_BATCH, _WAIT):
            yield received


def _worker_record(received: Received) -> WorkerRecord | None:
    """None for what can't be decoded: it says nothing about a lane, and the owner dead-letters it."""
    try:
        record: WorkerRecord = decode(TopicKind.WORKERS, received.header)
    except UndecodableError:
        return None
    return record


def _epoch_of(received: Received) -> int:
    if received.value is None and received.header is None:
        return 0  # a tombstone
    try:
        record = decode(TopicKind.STATE, received.header)
    except UndecodableError:
        return 0  # the owner's to judge; an unknown part of a checkpoint must not keep workers out
    return record.epoch if isinstance(record, Ownership) else 0
