"""OpenAI's doors with `stream`: the backend's events, untouched, as they come; then what the stored result adds.

Invariant: a stream that ends with [DONE] said exactly what is stored. One that can't ends with an error object.
"""

import msgspec
from starlette.types import Send

from headrace.contracts.lifecycle import Status
from headrace.contracts.replies import Chunk, Final
from headrace.ingest.decisions.mend_stream import DONE
from headrace.ingest.decisions.relay_stream import RelayedStream
from headrace.ingest.decisions.what_to_answer import Ended, refusal_of, what_to_answer
from headrace.ingest.doors.connection import HeldOpen
from headrace.ingest.ports import Heard, Listener
from headrace.ingest.refusal import Refusal, as_openai

EVENT_STREAM = "text/event-stream; charset=utf-8"
STREAM_HEADERS = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
_HEARTBEAT = b": headrace queued\n\n"


class StreamingAnswer(HeldOpen):
    """Relays a live answer and mends it at its end."""

    async def answer(self, send: Send, listener: Listener) -> None:
        """Sends the stream. Raises GoneError; Refusal while nothing is sent."""
        stream = RelayedStream(route=self.record.route, sends_usage=self.record.sends_usage)
        try:
            while True:
                heard = await self.next(listener)
                if heard is None:
                    await self._send(send, _HEARTBEAT)
                elif isinstance(heard.record, Final):
                    ended = await self.ingest.ended_from(heard.record, heard.value, self.record.tenant)
                    await self._finish(send, ended, stream)
                    return
                elif isinstance(heard.record, Chunk) and stream.shows(heard.record):
                    await self._relay(send, heard, stream)
        except Refusal as refusal:
            if not self.begun:
                raise
            await self._end(send, _error_event(refusal))

    async def _relay(self, send: Send, heard: Heard, stream: RelayedStream) -> None:
        raw = self.ingest.opened(heard, self.record.tenant)
        await self._send(send, raw)
        stream.relayed(raw)

    async def _finish(self, send: Send, ended: Ended, stream: RelayedStream) -> None:
        if ended.status is not Status.SUCCEEDED:
            await self._fail(send, ended)
            return
        events = stream.mended(ended.body, ended.attempt)
        await self._end(send, _error_event(_differs(ended)) if events is None else b"".join([*events, DONE]))

    async def _fail(self, send: Send, ended: Ended) -> None:
        if self.begun:
            await self._end(send, _failure_event(ended))
            return
        answer = what_to_answer(ended)
        length = (b"content-length", str(len(answer.body)).encode())
        await send(self.start_of(answer.status, answer.content_type, length))
        await send({"type": "http.response.body", "body": answer.body})

    async def _send(self, send: Send, part: bytes) -> None:
        await self._begin(send)
        await send({"type": "http.response.body", "body": part, "more_body": True})

    async def _end(self, send: Send, part: bytes) -> None:
        await self._begin(send)
        await send({"type": "http.response.body", "body": part})

    async def _begin(self, send: Send) -> None:
        if not self.begun:
            self.begun = True
            await send(self.start_of(200, EVENT_STREAM, *STREAM_HEADERS))


def _differs(ended: Ended) -> Refusal:
    sentence = f"The stored answer isn't a continuation of what was streamed; GET /v1/requests/{ended.id}/result has it."
    return Refusal(502, "stream_restarted", sentence, request_id=ended.id)


def _failure_event(ended: Ended) -> bytes:
    """A failure after the beginning: the backend's own error object where it left one."""
    try:
        error = msgspec.json.decode(ended.body, type=dict[str, msgspec.Raw]).get("error")
    except (msgspec.DecodeError, RecursionError):
        error = None
    if error is None:
        return _error_event(refusal_of(ended))
    return b"data: " + msgspec.json.encode({"error": msgspec.json.decode(error)}) + b"\n\n"


def _error_event(refusal: Refusal) -> bytes:
    return b"data: " + as_openai(refusal) + b"\n\n"
