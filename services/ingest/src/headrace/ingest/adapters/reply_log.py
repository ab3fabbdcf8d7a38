"""Reads a partition of `replies` from any place, for one resumable event stream. Fulfils ports.ReplyLog.

Invariant: each event stream has a reader of its own, so that a slow reader holds up nobody.
"""

from datetime import timedelta

from headrace.bus.messages import Place
from headrace.bus.ports import START, AsyncReader, PositionGoneError
from headrace.ingest.adapters.replies_reader import heard_of
from headrace.ingest.ports import Heard

_LIMIT = 200
_WAIT = timedelta(seconds=1)


class KafkaReplyLog:
    """One reader on one partition."""

    def __init__(self, reader: AsyncReader, topic: str) -> None:
        self._reader, self._topic = reader, topic
        self._place = Place(topic, 0)

    async def start(self, partition: int, *, offset: int | None, since_ms: int) -> None:
        """Begin at `offset`, or at this Unix time. Raises BusError."""
        await self._reader.start()
        self._place = Place(self._topic, partition)
        position = await self._reader.at_time(self._place, since_ms) if offset is None else offset
        await self._reader.assign({self._place: position})

    async def read(self, request_id: str) -> list[Heard]:
        """What is new of one request; empty after a second or so. Raises BusError."""
        try:
            received = await self._reader.read(_LIMIT, _WAIT)
        except PositionGoneError:
            # chunks were lost to retention: the gap in their numbers shows, and the stored text mends it
            await self._reader.assign({self._place: START})
            return []
        return [heard for heard in heard_of(received) if heard.record.id == request_id]

    async def stop(self) -> None:
        """Stop."""
        await self._reader.stop()
