"""AsyncReader on aiokafka: assign() only. Made by KafkaBus; belongs to the event loop that started it.

Invariant: committed records only (aiokafka's default is uncommitted); a position that is gone is raised at each
read until the partition is assigned anew.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, TopicAuthorizationFailedError

from headrace.bus.kafka.aiokafka_types import ConsumerClient, all_places, new_consumer
from headrace.bus.kafka.async_clients import started, stop_consumer
from headrace.bus.kafka.connection import ANSWER_WITHIN, KafkaConnection, milliseconds
from headrace.bus.messages import Place, Received
from headrace.bus.ports import END, START, BusError, BusUnavailableError, PositionGoneError
from headrace.contracts.durations import ms

_FETCH_BYTES = 256 * 1024
"""Of a partition at once, held until it is read, for each of hundreds of event streams. A larger record comes alone."""


def _at(place: Place) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)


def _received(record: ConsumerRecord[bytes, bytes]) -> Received:
    return Received(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.value,
        tuple((name, value or b"") for name, value in record.headers),
        record.key,
    )


def _bus_error(error: KafkaError, what: str) -> BusError:
    if isinstance(error, OffsetOutOfRangeError):
        partition, position = next(iter(error.args[0].items()))
        sentence = f"offset {position} of {partition.topic}/{partition.partition} is gone"
        return PositionGoneError(Place(*partition), position, sentence)
    if isinstance(error, TopicAuthorizationFailedError):
        return BusError(f"{what}: not allowed for {error}")
    return BusUnavailableError(f"{what}: {error!r}")


class KafkaAsyncReader:
    """As ports.AsyncReader."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._settings = connection.aiokafka(name) | {
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "isolation_level": "read_committed",
            "max_partition_fetch_bytes": _FETCH_BYTES,
            # A question about offsets, and a new assignment, wait for the fetch that is under way.
            "fetch_max_wait_ms": 100,
            "request_timeout_ms": milliseconds(2 * ANSWER_WITHIN),
            "retry_backoff_ms": 50,
        }
        self._client: ConsumerClient | None = None
        self._known: set[Place] = set()
        self._assigned: frozenset[Place] = frozenset()

    async def start(self) -> None:
        """As AsyncReader.start."""
        if self._client is None:
            self._client = await started(lambda: new_consumer(self._settings))

    async def assign(self, positions: Mapping[Place, int]) -> None:
        """As AsyncReader.assign. Raises BusError for a topic or partition that doesn't exist, BusUnavailableError."""
        client = self._started()
        await self._check_exist(positions)
        resolved = await self._resolve(positions)
        self._assigned = frozenset(resolved)
        if not resolved:
            client.unsubscribe()
            return
        client.assign([_at(place) for place in resolved])
        for place, position in resolved.items():
            client.seek(_at(place), position)

    async def _resolve(self, positions: Mapping[Place, int]) -> dict[Place, int]:
        starts = [place for place, position in positions.items() if position == START]
        ends = [place for place, position in positions.items() if position == END]
        return dict(positions) | await self._offsets(starts, START) | await self._offsets(ends, END)

    async def _offsets(self, places: Sequence[Place], which: int) -> dict[Place, int]:
        if not places:
            return {}
        client = self._started()
        ask = client.beginning_offsets if which == START else client.end_offsets
        try:
            async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
                found = await ask([_at(place) for place in places])
        except (KafkaError, TimeoutError) as error:
            raise BusUnavailableError(f"asking for the ends of logs failed: {error!r}") from error
        return {Place(*partition): offset for partition, offset in found.items()}

    async def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As AsyncReader.read."""
        client = self._started()
        if not self._assigned:
            await asyncio.sleep(wait.total_seconds())
            return []
        try:
            found = await client.getmany(timeout_ms=ms(wait), max_records=limit)
        except KafkaError as error:
            raise _bus_error(error, "reading failed") from error
        return [_received(record) for records in found.values() for record in records]

    async def position(self, place: Place) -> int:
        """As AsyncReader.position."""
        if place not in self._assigned:
            raise BusError(f"{place.topic}/{place.partition} isn't assigned to this reader")
        return int(await self._started().position(_at(place)))

    async def ends(self, places: Sequence[Place]) -> dict[Place, int]:
        """As AsyncReader.ends. Raises BusError for a topic or partition that doesn't exist."""
        await self._check_exist(places)
        return await self._offsets(places, END)

    async def at_time(self, place: Place, timestamp_ms: int) -> int:
        """As AsyncReader.at_time. Raises BusUnavailableError."""
        await self._check_exist([place])
        try:
            async with asyncio.timeout(ANSWER_WITHIN.total_seconds()):
                found = await self._started().offsets_for_times({_at(place): timestamp_ms})
        except (KafkaError, TimeoutError) as error:
            raise BusUnavailableError(f"asking for an offset by time failed: {error!r}") from error
        answer = found[_at(place)]
        return int(answer.offset) if answer is not None else (await self._offsets([place], END))[place]

    async def stop(self) -> None:
        """As AsyncReader.stop."""
        client, self._client = self._client, None
        if client is not None:
            await stop_consumer(client)

    async def _check_exist(self, places: Iterable[Place]) -> None:
        # aiokafka would wait for an unknown topic in silence.
        wanted = set(places)
        if not wanted <= self._known:
            await self._ask_topics()
        for place in sorted(wanted - self._known):
            raise BusError(f"there is no {place.topic}/{place.partition}; run `headrace topics apply`")

    async def _ask_topics(self) -> None:
        try:
            self._known = await all_places(self._started())
        except KafkaError as error:
            raise BusUnavailableError(f"asking for the topics failed: {error!r}") from error

    def _started(self) -> ConsumerClient:
        if self._client is None:
            raise BusError("this reader isn't started")
        return self._client
