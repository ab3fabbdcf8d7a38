"""One answer, plain or streamed, with its fault if it was asked for one. Called by server for each request.

Invariant: exchange.response holds exactly the body bytes that were handed to the connection.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from typing import NoReturn

import orjson
from aiohttp import web

from headrace.devkit.engine.asks import DEAD, Refusal, error_body
from headrace.devkit.engine.faults import Fault
from headrace.devkit.engine.journal import Exchange
from headrace.devkit.engine.wire import DONE, Answer

JSON = "application/json"
HARD_CLOSE = struct.pack("ii", 1, 0)
ENDING_ALL = frozenset({"hang", "reset", "die"})


def reply(
    exchange: Exchange, status: int, body: bytes, headers: dict[str, str] | None = None
) -> web.Response:
    """A whole JSON answer, noted."""
    exchange.status, exchange.response = status, body
    return web.Response(status=status, body=body, content_type=JSON, headers=headers)


def reset(transport: asyncio.BaseTransport | None) -> None:
    """Ends a connection with a TCP reset."""
    if not isinstance(transport, asyncio.WriteTransport) or transport.is_closing():
        return
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, HARD_CLOSE)
    transport.abort()


class Answering:
    """The making of one answer: its pace, its fault, its bytes."""

    def __init__(
        self,
        request: web.BaseRequest,
        exchange: Exchange,
        answer: Answer,
        *,
        fault: Fault | None,
        delay_s: float,
        die: Callable[[], None],
    ) -> None:
        self._request, self._exchange, self._answer, self._fault = request, exchange, answer, fault
        self._delay_s = fault.number / 1000 if fault and fault.kind == "slow" else delay_s
        self._die = die
        self.generated = 0

    async def plain(self, tokens: Sequence[str]) -> web.StreamResponse:
        """One JSON body after the time that all its tokens take."""
        kind = self._fault.kind if self._fault else ""
        if self._fault and kind in ENDING_ALL:
            await self._pace(self._fault.number)
            await self._end_all(kind)
        await self._pace(len(tokens))
        self.generated = len(tokens)
        if kind == "error-event":
            raise Refusal(500, "InternalServerError", DEAD)
        body = self._answer.whole(list(tokens))
        if kind == "cut":
            return await self._half(body)
        return reply(self._exchange, 200, body[: len(body) // 2] if kind == "malformed" else body)

    async def stream(self, tokens: Sequence[str]) -> web.StreamResponse:
        """Server-sent events, one for each token."""
        fault = self._fault
        at = len(tokens) if fault is None or fault.kind == "slow" else min(fault.number, len(tokens))
        if fault and fault.kind in ENDING_ALL and not at:
            await self._end_all(fault.kind)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(self._request)
        self._exchange.status = 200
        await self._write(response, self._answer.opening())
        await self._say(response, tokens[:at])
        if fault and await self._strike(response, fault.kind):
            return response
        await self._say(response, tokens[at:])
        for chunk in self._answer.ending(len(tokens)):
            await self._write(response, chunk)
        return response

    async def _say(self, response: web.StreamResponse, tokens: Sequence[str]) -> None:
        before, after = self._answer.token_frame()
        for token in tokens:
            await self._write(response, before + orjson.dumps(token) + after)
            self.generated += 1
            await asyncio.sleep(self._delay_s)

    async def _strike(self, response: web.StreamResponse, kind: str) -> bool:
        """Does the fault in mid-stream; whether the stream ends with it."""
        if kind in ENDING_ALL:
            await self._end_all(kind)
        if kind == "malformed":
            await self._write(response, b'data: {"choices":[{"index":0,"delta":{"con\n\n')
        if kind == "error-event":
            await self._write(response, b"data: " + error_body(500, "InternalServerError", DEAD) + b"\n\n")
            await self._write(response, DONE)
        if kind in {"cut", "error-event"}:
            self._exchange.ended = "cut"
            return True
        return False

    async def _write(self, response: web.StreamResponse, chunk: bytes) -> None:
        if chunk:
            await response.write(chunk)
            self._exchange.response += chunk

    async def _half(self, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON, "Content-Length": str(len(body))})
        await response.prepare(self._request)
        self._exchange.status = 200
        await self._write(response, body[: len(body) // 2])
        self._exchange.ended = "cut"
        if self._request.transport:
            self._request.transport.close()
        await self._for_ever()

    async def _end_all(self, kind: str) -> NoReturn:
        if kind != "hang":
            self._exchange.ended = "cut"
        if kind == "reset":
            reset(self._request.transport)
        if kind == "die":
            self._die()
        await self._for_ever()

    async def _pace(self, tokens: int) -> None:
        if self._delay_s:
            await asyncio.sleep(self._delay_s * tokens)

    async def _for_ever(self) -> NoReturn:
        """Until the connection is lost, which cancels the handler."""
        await asyncio.Event().wait()
        raise AssertionError("nothing sets that event")
