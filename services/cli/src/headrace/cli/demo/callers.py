"""The demo's callers: each sends one prompt by its door over real HTTP and tells the board what comes.

Called by demo.play. Invariant: every prompt ends on the board exactly once for each answer that came, or as failed with a
sentence; nothing here retries, so a lost answer shows.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec

from headrace.cli.demo.answers import ChatAnswer, ChatChunk, Kept, Standing, problem_of
from headrace.cli.demo.board import Ask, Board, How, Row
from headrace.cli.demo.prompts import MAX_TOKENS, MODEL

PATIENCE_S = 600.0
LOOK_EVERY_S = 0.4
Happened = Callable[[str, Row], None]


class Unanswered(Exception):  # noqa: N818 - reads as what happened
    """A prompt ended without an answer; the message says why."""


class Callers:
    """Sends prompts to `url` with each tenant's key. `now_ms` is the time since the demo's start."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        keys: dict[str, str],
        board: Board,
        *,
        now_ms: Callable[[], int],
        happened: Happened,
    ) -> None:
        self._session, self._url, self._keys, self._board = session, url, keys, board
        self._now, self._happened = now_ms, happened
        self._doors = {How.STREAM: self._stream, How.WAIT: self._wait, How.POLL: self._poll}

    async def ask(self, ask: Ask) -> None:
        """One prompt from its sending to its end. Raises nothing but cancellation."""
        self._board.sent(ask.number, self._now())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._doors[ask.how](ask)
        except (Unanswered, aiohttp.ClientError, TimeoutError, msgspec.DecodeError) as error:
            self._board.failed(ask.number, self._now(), str(error) or type(error).__name__)
            self._happened("failed", self._board.rows[ask.number])
        else:
            self._happened("answered", self._board.rows[ask.number])

    async def standing(self, row: Row) -> Standing:
        """What headrace itself says of a request, after its end. Raises Unanswered, aiohttp.ClientError."""
        return await self._get(f"/v1/requests/{row.request_id}", row.ask, Standing)

    async def _stream(self, ask: Ask) -> None:
        body = {**_body(ask), "stream": True, "stream_options": {"include_usage": True}}
        text, tokens, finished = "", 0, False
        async with self._post("/v1/chat/completions", ask, body) as response:
            await _checked(response, 200)
            self._accepted(ask, response.headers.get("X-Request-Id", ""))
            async for chunk in _chunks(response):
                if piece := chunk.text:
                    text += piece
                    self._board.piece(ask.number, piece, self._now())
                finished = finished or chunk.finished
                tokens = chunk.usage.completion_tokens if chunk.usage else tokens
        if not finished:
            raise Unanswered("the stream broke off before its end")
        self._board.answered(ask.number, self._now(), text=text, tokens=tokens)

    async def _wait(self, ask: Ask) -> None:
        async with self._post("/v1/chat/completions", ask, _body(ask)) as response:
            content = await _checked(response, 200)
            self._accepted(ask, response.headers.get("X-Request-Id", ""))
        self._answered(ask, content)

    async def _poll(self, ask: Ask) -> None:
        async with self._post("/v1/requests", ask, _body(ask)) as response:
            kept = msgspec.json.decode(await _checked(response, 202), type=Kept)
        self._accepted(ask, kept.id)
        path = f"/v1/requests/{kept.id}"
        while not (standing := await self._get(path, ask, Standing)).is_end:
            if standing.is_running:
                self._board.running(ask.number, self._now(), tokens=standing.tokens)
            await asyncio.sleep(LOOK_EVERY_S)
        if standing.status != "succeeded":
            raise Unanswered(f"it ended as {standing.status}")
        async with self._session.get(self._url + f"{path}/result", headers=self._headers(ask)) as response:
            self._answered(ask, await _checked(response, 200))

    def _accepted(self, ask: Ask, request_id: str) -> None:
        self._board.accepted(ask.number, request_id, self._now())
        self._happened("accepted", self._board.rows[ask.number])

    def _answered(self, ask: Ask, content: bytes) -> None:
        answer = msgspec.json.decode(content, type=ChatAnswer)
        tokens = answer.usage.completion_tokens if answer.usage else 0
        self._board.answered(ask.number, self._now(), text=answer.text, tokens=tokens)

    async def _get(self, path: str, ask: Ask, kind: type[Standing]) -> Standing:
        async with self._session.get(self._url + path, headers=self._headers(ask)) as response:
            return msgspec.json.decode(await _checked(response, 200), type=kind)

    def _post(self, path: str, ask: Ask, body: dict[str, Any]) -> "aiohttp.client._RequestContextManager":
        content = msgspec.json.encode(body)
        return self._session.post(self._url + path, data=content, headers=self._headers(ask))

    def _headers(self, ask: Ask) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._keys[ask.tenant]}",
            "Content-Type": "application/json",
            "X-Priority": ask.tier,
        }


def _body(ask: Ask) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": ask.prompt}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0,
    }


async def _checked(response: aiohttp.ClientResponse, status: int) -> bytes:
    """The body of an answer with this status (a stream's is left unread). Raises Unanswered."""
    if response.status == status and response.content_type == "text/event-stream":
        return b""
    content = await response.read()
    if response.status != status:
        raise Unanswered(f"HTTP {response.status}: {problem_of(content)}")
    return content


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[ChatChunk]:
    """The stream's events up to [DONE]. Raises Unanswered on an error event."""
    async for line in response.content:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        chunk = msgspec.json.decode(data, type=ChatChunk)
        if chunk.error is not None:
            raise Unanswered(problem_of(data))
        yield chunk
