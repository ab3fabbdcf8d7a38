"""Follows the worker's lane and hands on what stands in it. Run by the service for as long as a boot lasts.

Invariant: the position passes an undecodable record only after its dead letter is confirmed.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

from headrace.bus.dead_letters import dead_letter, reason_of
from headrace.bus.messages import Headers, Place, Received
from headrace.bus.ports import AsyncProducer, AsyncReader, BusError, PositionGoneError
from headrace.contracts.codec import TRACE_HEADERS, UndecodableError, decode, find_header
from headrace.contracts.commands import Command, Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.kept_text import TEXT_HEADER
from headrace.contracts.topics import TopicKind
from headrace.inference_worker.protocol.inputs import LaneLost, LaneRead, Work
from headrace.inference_worker.protocol.outputs import FollowLane
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger

_SERVICE = "inference-worker"
_BATCH, _WAIT, _PAUSE = 100, timedelta(seconds=1), timedelta(milliseconds=250)


class Lane:
    """One following of one lane. `told` takes what was read."""

    def __init__(
        self, reader: AsyncReader, producer: AsyncProducer, *, dlq: Place, clock: Clock,
        told: Callable[[LaneRead | LaneLost], None],
    ) -> None:  # fmt: skip
        self._reader, self._producer, self._dlq = reader, producer, dlq
        self._clock, self._told = clock, told
        self._log = get_logger("lane")

    async def follow(self, order: FollowLane, place: Place) -> None:
        """Until cancelled, or until the log no longer has what comes next."""
        try:
            await self._assign(place, order.position)
            while True:
                if records := await self._read():
                    commands = await self._commands(records)
                    self._told(LaneRead(order.boot, records[-1].offset + 1, commands))
        except PositionGoneError as error:
            self._log.warning("the lane no longer has the next record", boot=order.boot, reason=str(error))
            self._told(LaneLost(order.boot))

    async def _assign(self, place: Place, position: int) -> None:
        while True:
            try:
                return await self._reader.assign({place: position})
            except PositionGoneError:
                raise
            except BusError:
                await asyncio.sleep(_PAUSE.total_seconds())

    async def _read(self) -> list[Received]:
        try:
            return await self._reader.read(_BATCH, _WAIT)
        except PositionGoneError:
            raise
        except BusError:
            # pings and reports don't get through either: the protocol decides what that means
            await asyncio.sleep(_PAUSE.total_seconds())
            return []

    async def _commands(self, records: list[Received]) -> tuple[Work | Command, ...]:
        """What can be read, in its order. The letters of what can't go out together: a flood of junk costs one wait."""
        found, letters = list[Work | Command](), list[Coroutine[Any, Any, None]]()
        for record in records:
            try:
                command: Command = decode(TopicKind.WORK, record.header)
            except UndecodableError as error:
                letters.append(self._bury(record, reason_of(record, error), str(error)))
                continue
            if isinstance(command, Run):
                text = find_header(record.headers, TEXT_HEADER) or b""
                found.append(Work(command, record.value or b"", _trace(record.headers), text))
            else:
                found.append(command)
        if letters:
            await asyncio.gather(*letters)
        return tuple(found)

    async def _bury(self, record: Received, reason: FailureKind, detail: str) -> None:
        letter = dead_letter(
            self._dlq, record, reason,
            by=_SERVICE, at_ms=self._clock.now().wall_ms, detail=detail,
        )  # fmt: skip
        self._log.warning("an undecodable command goes to the dead letters", offset=record.offset)
        while True:
            try:
                await self._producer.send(letter)
            except BusError:
                await asyncio.sleep(_PAUSE.total_seconds())
            else:
                return


def _trace(headers: Headers) -> Headers:
    return tuple((name, value) for name, value in headers if name in TRACE_HEADERS)
