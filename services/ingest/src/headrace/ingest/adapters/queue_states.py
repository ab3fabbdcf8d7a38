"""Follows `queue-state`: how each queue stands, as its owner says each second. Started by connecting.py for ports.Queues.

Invariant: only a fresh word of the highest epoch counts; whatever is wrong here, nothing is known and nothing refused.
"""

import asyncio
from datetime import timedelta

from headrace.bus.messages import Place, Received
from headrace.bus.ports import END, AsyncReader, BusError
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.durations import ms
from headrace.contracts.observations import QueueState
from headrace.contracts.topics import TopicKind
from headrace.runtime.clock import Clock
from headrace.runtime.logging import get_logger
from headrace.runtime.outages import Outages

FRESH = timedelta(seconds=5)
"""The owner's word comes each second, and says nothing any more after so long."""
_LIMIT, _WAIT = 500, timedelta(milliseconds=500)
_BACK_OFF_SECONDS = 1.0


class QueueStates:
    """The last word on each pool and tier."""

    def __init__(self, reader: AsyncReader, place: Place, clock: Clock) -> None:
        self._reader, self._place, self._clock = reader, place, clock
        self._outages = Outages(get_logger("queue-state"))
        self._told: dict[tuple[str, str], tuple[int, QueueState]] = {}

    def of(self, pool: str, tier: str) -> QueueState | None:
        """The owner's word, while it is fresh by both its clock and ours."""
        heard_ms, told = self._told.get((pool, tier), (0, None))
        now = self._clock.now()
        if told is None or now.boot_ms - heard_ms > ms(FRESH) or abs(now.wall_ms - told.as_of_ms) > ms(FRESH):
            return None
        return told

    def hear(self, received: Received) -> None:
        """One record; what isn't the highest owner's word on a queue is passed over."""
        try:
            record = decode(TopicKind.QUEUE_STATE, received.header)
        except UndecodableError:
            return
        if not isinstance(record, QueueState):
            return
        key, now = (record.pool, record.tier), self._clock.now()
        heard_ms, known = self._told.get(key, (0, None))
        if known is None or record.epoch >= known.epoch or now.boot_ms - heard_ms > ms(FRESH):
            self._told[key] = (now.boot_ms, record)

    async def read_on(self) -> None:
        """Reads until it is cancelled; begins anew after whatever failed."""
        try:
            while True:
                try:
                    await self._reader.start()
                    await self._reader.assign({self._place: END})
                    await self._read()
                except BusError as error:
                    self._outages.say("queue-state", "queue-state can't be read", str(error))
                    await asyncio.sleep(_BACK_OFF_SECONDS)
        finally:
            await self._reader.stop()

    async def _read(self) -> None:
        while True:
            for received in await self._reader.read(_LIMIT, _WAIT):
                self.hear(received)
            self._outages.over("queue-state")
