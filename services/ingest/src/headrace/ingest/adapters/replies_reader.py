"""Reads this replica's partition of `replies` and hands each record to whoever listens for its request or query.

Started by wiring.py before the first request is accepted. Invariant: a listener that was made before its request was
written misses nothing, and one whose Final was lost on the way still ends: results are looked up for all who wait.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Self

from headrace.bus.messages import Place, Received
from headrace.bus.ports import END, AsyncReader, BusError, PositionGoneError
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.replies import Answer, Chunk
from headrace.contracts.topics import TopicKind
from headrace.ingest.ports import GoneError, Heard, Results, ResultsUnavailableError, StoppingError
from headrace.runtime.health import Component
from headrace.runtime.logging import get_logger
from headrace.runtime.outages import Outages

_LIMIT = 500
_WAIT = timedelta(milliseconds=500)
_BACK_OFF_SECONDS = 0.5
_LOOK_UP_AT_ONCE = 500
_MOST_WAITING_BYTES = 512 * 1024
"""Of one listener: more than a caller that reads ever leaves lying."""


class QueueListener:
    """A listener of one request."""

    def __init__(self, listeners: "Listeners", request_id: str) -> None:
        self._listeners, self._id = listeners, request_id
        self._heard: asyncio.Queue[Heard | GoneError | StoppingError] = asyncio.Queue()
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listeners.leave(self._id, self)

    async def next(self) -> Heard:
        """The next record. Raises GoneError once `hang_up` was called, StoppingError once this replica stops."""
        heard = await self._heard.get()
        if not isinstance(heard, Heard):
            raise heard
        self._bytes -= len(heard.value)
        return heard

    def hang_up(self, *_: object) -> None:
        """The caller has gone: `next` says so."""
        self._heard.put_nowait(GoneError())

    def send_away(self) -> None:
        """This replica stops: `next` says so."""
        self._heard.put_nowait(StoppingError())

    def hear(self, heard: Heard) -> None:
        """One more record, from the reader. Chunks behind a slow caller are dropped: the stored text mends them."""
        if self._bytes > _MOST_WAITING_BYTES and isinstance(heard.record, Chunk):
            return
        self._bytes += len(heard.value)
        self._heard.put_nowait(heard)


class Listeners:
    """Who waits for what."""

    def __init__(self) -> None:
        self._by_id: defaultdict[str, list[QueueListener]] = defaultdict(list)
        self._by_nonce: dict[str, asyncio.Future[Answer]] = {}

    def listen(self, request_id: str) -> QueueListener:
        """A listener for one request; it counts from now on."""
        listener = QueueListener(self, request_id)
        self._by_id[request_id].append(listener)
        return listener

    def leave(self, request_id: str, listener: QueueListener) -> None:
        """It listens no more."""
        self._by_id[request_id].remove(listener)
        if not self._by_id[request_id]:
            del self._by_id[request_id]

    def send_away(self) -> None:
        """This replica stops: all who listen are told."""
        for listeners in self._by_id.values():
            for listener in listeners:
                listener.send_away()

    def expect(self, nonce: str) -> asyncio.Future[Answer]:
        """What will hold the answer to a query; `forget` it afterwards."""
        return self._by_nonce.setdefault(nonce, asyncio.get_running_loop().create_future())

    def forget(self, nonce: str) -> None:
        """The query was answered or given up."""
        self._by_nonce.pop(nonce, None)

    def waiting(self) -> list[str]:
        """The ids that somebody listens for."""
        return list(self._by_id)

    def tell(self, heard: Heard) -> None:
        """Hands one record to those it concerns; most often one, or nobody."""
        record = heard.record
        if isinstance(record, Answer):
            future = self._by_nonce.get(record.nonce)
            if future is not None and not future.done():
                future.set_result(record)
            return
        for listener in self._by_id.get(record.id, ()):
            listener.hear(heard)


def heard_of(received: list[Received]) -> Iterator[Heard]:
    """The records of `replies`; what can't be decoded is left out, since a wire has no dead letters."""
    for message in received:
        try:
            record = decode(TopicKind.REPLIES, message.header)
        except UndecodableError:
            continue
        yield Heard(record, message.value or b"", message.partition, message.offset)


class RepliesReader:
    """The loop that reads, and the loop that looks up what was lost."""

    def __init__(
        self, reader: AsyncReader, place: Place, listeners: Listeners, results: Results, health: Component
    ) -> None:
        self._reader, self._place, self._listeners = reader, place, listeners
        self._results, self._health = results, health
        self._outages = Outages(get_logger("replies"))
        self._lost = False

    async def start(self) -> None:
        """Stand at the end of the partition. Raises BusUnavailableError."""
        await self._reader.start()
        await self._reader.assign({self._place: END})
        self._health.ready()

    async def read_on(self) -> None:
        """Reads until it is cancelled."""
        while True:
            self._health.turned()
            try:
                await self._stand_again()
                received = await self._reader.read(_LIMIT, _WAIT)
            except BusError as error:
                await self._stumble(error)
                continue
            self._health.ready()
            self._outages.over("replies")
            for heard in heard_of(received):
                self._listeners.tell(heard)

    async def look_up(self, every: timedelta) -> None:
        """Tells those who wait what is committed already, until it is cancelled."""
        while True:
            before = set(self._listeners.waiting())
            await asyncio.sleep(every.total_seconds())
            # only who has waited for a whole round: a Final usually comes within milliseconds
            waiting = [request_id for request_id in self._listeners.waiting() if request_id in before]
            for start in range(0, len(waiting), _LOOK_UP_AT_ONCE):
                await self._tell_ended(waiting[start : start + _LOOK_UP_AT_ONCE])

    async def stop(self) -> None:
        """Stop."""
        await self._reader.stop()

    async def _tell_ended(self, ids: list[str]) -> None:
        try:
            finals = await self._results.ended(ids)
        except ResultsUnavailableError as error:
            self._outages.say("results", "results can't be read", str(error))
            return
        self._outages.over("results")
        for final in finals:
            self._listeners.tell(Heard(final))

    async def _stumble(self, error: BusError) -> None:
        """What was missed meanwhile is looked up in the results."""
        self._health.not_ready(f"replies can't be read: {error}")
        self._outages.say("replies", "replies can't be read", str(error))
        self._lost = self._lost or isinstance(error, PositionGoneError)
        await asyncio.sleep(_BACK_OFF_SECONDS)

    async def _stand_again(self) -> None:
        """At the end, where the position was lost. Raises BusError: try again."""
        if self._lost:
            await self._reader.assign({self._place: END})
            self._lost = False
