"""One answer, plain or streamed, with its fault if it has one. Called by generating for each request.

Invariant: exchange.response holds exactly the body bytes that were handed to the connection.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from aiohttp import web

from headrace.devkit.engine.faults import ENDING_ALL, STALLING, Fault
from headrace.devkit.engine.journal import Exchange
from headrace.devkit.engine.live import EngineDead, Generation
from headrace.devkit.engine.refusals import DEAD, dead, error_body
from headrace.devkit.engine.wire import DONE, EngineAnswer, encoded

JSON = "application/json"
HARD_CLOSE = struct.pack("ii", 1, 0)
HALFWAY = STALLING | {"malformed"}
PAUSE_S = 0.002
"""Between the two packets of a split event, so that they don't become one."""


def reply(
    exchange: Exchange, status: int, body: bytes, headers: dict[str, str] | None = None, kind: str = JSON
) -> web.Response:
    """A whole answer, noted."""
    exchange.status, exchange.response = status, body
    said = {**exchange.limits, **(headers or {})}
    return web.Response(status=status, body=body, content_type=kind, headers=said)


def reset(transport: asyncio.BaseTransport | None) -> None:
    """Ends a connection with a TCP reset."""
    if not isinstance(transport, asyncio.WriteTransport) or transport.is_closing():
        return
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HARD_CLOSE)
    transport.abort()


def stall_of(fault: Fault | None, *, stream: bool) -> int | None:
    """After how many tokens this fault stops the generation; None when it doesn't."""
    if fault is None or fault.kind not in (STALLING if stream else ENDING_ALL):
        return None
    return fault.number


class Answering:
    """The making of one answer from the tokens as they come: its fault, its bytes."""

    def __init__(
        self,
        request: web.BaseRequest,
        exchange: Exchange,
        answer: EngineAnswer,
        generation: Generation,
        *,
        fault: Fault | None,
        die: Callable[[], None],
    ) -> None:
        self._request, self._exchange, self._answer, self._generation = request, exchange, answer, generation
        self._tokens = answer.ask.tokens
        self._kind, self._number = (fault.kind, fault.number) if fault else ("", 0)
        self._die = die

    async def plain(self) -> web.StreamResponse:
        """One JSON body when all its tokens are there."""
        kind = self._kind
        try:
            if kind in ENDING_ALL:
                await self._generation.reached(self._number)
                await self._end_all()
            await self._ended()
        except EngineDead as death:
            raise dead() from death
        if kind == "error-event":
            raise dead()
        body = self._answer.whole(usage=kind != "no-usage")
        if kind in {"cut", "split-utf8"}:
            return await self._in_halves(body)
        return reply(self._exchange, 200, body[: len(body) // 2] if kind == "malformed" else body)

    async def stream(self) -> web.StreamResponse:
        """Server-sent events, one for each token; those of one moment leave together."""
        at = min(self._number, len(self._tokens)) if self._kind in HALFWAY else len(self._tokens)
        if self._kind in ENDING_ALL and not at:
            await self._end_all()
        kind = {"Content-Type": "text/event-stream; charset=utf-8"}
        response = web.StreamResponse(headers={**self._exchange.limits, **kind})
        await response.prepare(self._request)
        self._exchange.status = 200
        try:
            await self._events(response, at)
        except EngineDead:
            await self._error_event(response)
        return response

    async def _events(self, response: web.StreamResponse, at: int) -> None:
        await self._generation.reached(min(1, at))
        await self._write(response, [self._answer.opening()])
        await self._say(response, 0, at)
        if self._kind in HALFWAY and await self._strike(response):
            return
        await self._say(response, at, len(self._tokens))
        await self._ended()
        await self._write(response, list(self._ending()))

    async def _ended(self) -> None:
        """Waits for the last step, and takes over what the engine found cached."""
        await self._generation.reached(len(self._tokens) + 1)
        self._answer.ask.cached_tokens = self._generation.sequence.cached_tokens

    def _ending(self) -> Iterator[bytes]:
        finish = self._answer.finish()
        yield finish
        if self._kind == "double-finish":
            yield finish
        if self._kind != "no-usage":
            yield self._answer.usage_chunk()
        if self._kind != "no-done":
            yield DONE

    async def _say(self, response: web.StreamResponse, sent: int, until: int) -> None:
        before, after = self._answer.token_frame()
        while sent < until:
            ready = min(await self._generation.reached(sent + 1), until)
            fresh = self._tokens[sent:ready]
            if self._answer.ask.usage_all_along:
                events = [self._answer.counted(token, n) for n, token in enumerate(fresh, sent + 1)]
            else:
                events = [before + encoded(token) + after for token in fresh]
            await self._write(response, events)
            sent = ready

    async def _strike(self, response: web.StreamResponse) -> bool:
        """Does the fault in mid-stream; whether the stream ends with it."""
        if self._kind in ENDING_ALL:
            await self._end_all()
        if self._kind == "malformed":
            await self._write(response, [b'data: {"choices":[{"index":0,"delta":{"con\n\n'])
            return False
        if self._kind == "error-event":
            await self._error_event(response)
        self._exchange.ended = "cut"
        return True

    async def _error_event(self, response: web.StreamResponse) -> None:
        self._exchange.ended = "cut"
        await self._write(
            response, [b"data: " + error_body(500, "InternalServerError", DEAD) + b"\n\n", DONE]
        )

    async def _write(self, response: web.StreamResponse, events: Sequence[bytes]) -> None:
        if self._kind == "comments":
            events = [piece for event in events if event for piece in (b": keep-alive\n\n", event)]
        if self._kind == "split-utf8":
            for event in events:
                await self._in_two(response, event)
        elif chunk := b"".join(events):
            await response.write(chunk)
            self._exchange.response += chunk

    async def _in_two(self, response: web.StreamResponse, event: bytes) -> None:
        """Parts an event inside its first character that isn't ASCII, or in the middle."""
        inside = next((at for at, byte in enumerate(event) if byte & 0xC0 == 0x80), len(event) // 2)
        for piece in (event[:inside], event[inside:]):
            if piece:
                await response.write(piece)
                self._exchange.response += piece
                await asyncio.sleep(PAUSE_S)

    async def _in_halves(self, body: bytes) -> web.StreamResponse:
        """A plain answer whose second half comes late, or never."""
        whole = {"Content-Type": JSON, "Content-Length": str(len(body))}
        response = web.StreamResponse(headers={**self._exchange.limits, **whole})
        await response.prepare(self._request)
        self._exchange.status = 200
        if self._kind == "cut":
            await self._write(response, [body[: len(body) // 2]])
            self._exchange.ended = "cut"
            if self._request.transport:
                self._request.transport.close()
            await self._for_ever()
        await self._in_two(response, body)
        return response

    async def _end_all(self) -> NoReturn:
        if self._kind != "hang":
            self._exchange.ended = "cut"
        if self._kind == "reset":
            reset(self._request.transport)
        if self._kind == "die":
            self._die()
        await self._for_ever()

    async def _for_ever(self) -> NoReturn:
        """Until the connection is lost, which cancels the handler."""
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")
