"""`GET /v1/requests/{id}/events`: a request's life as server-sent events, resumable on any replica.

Called by doors/native.py. Each stream reads `replies` with a reader of its own. Invariant: it ends with `end` once the
result is committed, whether or not the Final arrived; hanging up cancels nothing.
"""

import asyncio
import contextlib
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.bus.ports import BusError
from headrace.contracts.ids import RequestAddress
from headrace.contracts.replies import Chunk, Final
from headrace.ingest.decisions.native_events import EventId, NativeEvents, frame
from headrace.ingest.doors.connection import sent_away
from headrace.ingest.doors.documents import StatusDocument, ended_document, live_document
from headrace.ingest.doors.front import Front
from headrace.ingest.doors.streaming import EVENT_STREAM, STREAM_HEADERS
from headrace.ingest.ports import Heard, ReplyLog, StoredResult
from headrace.ingest.refusal import Refusal

_HEARTBEAT = b": headrace\n\n"
_HEARTBEAT_MS = 15_000
_FAREWELL_S = 2.0
"""After the order to stop: longer than one read of `replies` takes, and no longer than a broker that doesn't answer."""
_CLOCKS_DIFFER_MS = 5_000
"""The place to start is found by the broker's clock from ours."""


@dataclass(frozen=True, slots=True)
class Followed:
    """Whose life is told, to whom."""

    request_id: str
    tenant: str
    address: RequestAddress
    resumed: EventId | None


class EventStream(Response):
    """The stream of one reader."""

    def __init__(self, front: Front, followed: Followed) -> None:
        super().__init__()
        self._front, self._ingest, self._followed = front, front.ingest, followed
        at = followed.resumed or EventId(front.ingest.parts.gateway)
        self._events = NativeEvents(at, resumed=followed.resumed is not None)
        self._told, self._begun = "", False
        self._beaten_ms = self._looked_ms = self._now_ms()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Tells until the end, or until nobody listens."""
        self._may_open()
        self._front.streams.add(self)
        telling = asyncio.ensure_future(self._tell(send))
        gone = asyncio.ensure_future(disconnected(receive))
        stopping = asyncio.ensure_future(self._front.stopping.wait())
        try:
            await asyncio.wait({telling, gone, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                await asyncio.wait({telling, gone}, timeout=_FAREWELL_S, return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                telling.result()
        finally:
            for task in (telling, gone, stopping):
                task.cancel()
            try:
                await asyncio.gather(telling, gone, stopping, return_exceptions=True)
            finally:
                self._front.streams.discard(self)  # until its reader is closed it takes the room of one
        if not telling.done() or telling.cancelled():
            await self._break_off(send)

    async def _break_off(self, send: Send) -> None:
        """This replica stops while it still waits for a broker or the database: the reader is sent elsewhere."""
        if not self._front.stopping.is_set():
            return
        if not self._begun:
            raise sent_away(self._followed.request_id)
        await send({"type": "http.response.body", "body": b""})

    def _may_open(self) -> None:
        limit = self._front.settings.max_event_streams
        if len(self._front.streams) >= limit:
            sentence = (
                f"This replica holds {limit} event streams and takes no more; poll, or try again shortly."
            )
            raise Refusal(503, "overloaded", sentence, retry_after=5)

    async def _tell(self, send: Send) -> None:
        stored = await self._result()
        document = await self._status(stored)
        headers = [(b"content-type", EVENT_STREAM.encode()), *STREAM_HEADERS]
        self._begun = True
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._tell_status(send, document)
        if stored is None:
            stored = await self._follow(send)
        end = [] if stored is None else self._events.on_end(stored.ended, ended_document(stored).to_json())
        await send({"type": "http.response.body", "body": b"".join(end)})

    async def _follow(self, send: Send) -> StoredResult | None:
        """Relays until there is a result; None when this replica stops before."""
        log = await self._opened()
        try:
            while not self._front.stopping.is_set():
                heard = await self._read(log)
                stored = await self._heard(send, heard)
                if stored is not None:
                    return stored
                await self._keep_alive(send)
            return None
        finally:
            await log.stop()

    async def _opened(self) -> ReplyLog:
        """A reader at its place, as soon as a broker answers."""
        resumed, accepted_ms = self._followed.resumed, self._followed.address.accepted_ms
        while True:
            log = self._front.reply_log()
            try:
                async with self._front.opening:
                    await log.start(
                        self._events.at.partition,
                        offset=None if resumed is None else resumed.offset,
                        since_ms=accepted_ms - _CLOCKS_DIFFER_MS,
                    )
            except BusError:
                await log.stop()
                await asyncio.sleep(1)
            except BaseException:
                await log.stop()
                raise
            else:
                return log

    async def _read(self, log: ReplyLog) -> list[Heard]:
        try:
            return await log.read(self._followed.request_id)
        except BusError:
            await asyncio.sleep(1)  # the result is looked up meanwhile
            return []

    async def _heard(self, send: Send, heard: list[Heard]) -> StoredResult | None:
        frames = []
        for each in heard:
            if isinstance(each.record, Chunk):
                raw = self._ingest.opened(each, self._followed.tenant)
                frames += self._events.on_chunk(each.record, raw, each.partition, each.offset)
        if frames:
            await send({"type": "http.response.body", "body": b"".join(frames), "more_body": True})
        final = any(isinstance(each.record, Final) for each in heard)
        if not final and not self._is_due():
            return None
        with contextlib.suppress(Refusal):  # logged already; looked up again at the next round
            return await self._result()
        return None

    def _is_due(self) -> bool:
        every_ms = self._front.settings.lost_final_poll.total_seconds() * 1000
        due = self._now_ms() - self._looked_ms >= every_ms
        if due:
            self._looked_ms = self._now_ms()
        return due

    async def _keep_alive(self, send: Send) -> None:
        if self._now_ms() - self._beaten_ms >= _HEARTBEAT_MS:
            self._beaten_ms = self._now_ms()
            await send({"type": "http.response.body", "body": _HEARTBEAT, "more_body": True})
            await self._tell_status(send, await self._status(None))

    async def _tell_status(self, send: Send, document: StatusDocument) -> None:
        """Only what is new: neither the same state nor the same number of tokens twice."""
        told = f"{document.status} {document.position} {document.tokens}"
        if told != self._told:
            self._told = told
            await send(
                {"type": "http.response.body", "body": frame("status", document.to_json()), "more_body": True}
            )

    async def _status(self, stored: StoredResult | None) -> StatusDocument:
        if stored is not None:
            return ended_document(stored)
        request_id, address = self._followed.request_id, self._followed.address
        answer = await self._ingest.parts.owners.ask(request_id, address.pool)
        if (
            answer is not None
            and answer.gateway is not None
            and not self._told
            and not self._followed.resumed
        ):
            self._events.at = self._events.at._replace(partition=answer.gateway)
        return live_document(request_id, address, answer, now_ms=self._now_ms())

    async def _result(self) -> StoredResult | None:
        return await self._ingest.result_of(self._followed.request_id, self._followed.tenant, body=True)

    def _now_ms(self) -> int:
        return self._ingest.parts.clock.now().wall_ms


async def disconnected(receive: Receive) -> None:
    """Returns when the caller has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass
