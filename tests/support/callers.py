"""A tenant's program, as end-to-end tests play it: each of the four doors as one call that ends with an Outcome.

Called by tests/e2e and the benchmarks. Keeps the raw bytes of answers, so that tests may compare them with an engine's.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import msgspec

TERMINAL = {"succeeded", "failed", "expired", "cancelled", "dead_lettered"}
WHOLE = aiohttp.ClientTimeout(total=120)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one request ended for its caller."""

    id: str
    http_status: int
    text: str
    body: bytes


def chat_body(prompt: str, *, model: str, max_tokens: int, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0, **more}


def text_of(body: bytes) -> str:
    """The text of a chat or text completion; empty when it is none."""
    choices = msgspec.json.decode(body).get("choices") or [{}]
    message = choices[0].get("message")
    return str((message.get("content") if message else choices[0].get("text")) or "")


def text_of_stream(body: bytes) -> str:
    """The text that a stream of chat or text completion chunks adds up to."""
    lines = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: ")]
    events = [msgspec.json.decode(line) for line in lines if line != "[DONE]"]
    choices = [choice for event in events for choice in event.get("choices", ())]
    return "".join(
        (choice.get("delta") or {}).get("content") or choice.get("text") or "" for choice in choices
    )


class Caller:
    """One tenant with its key. An async context manager, so that its connections are closed."""

    def __init__(self, url: str, key: str, *, connections: int = 100) -> None:
        self.url, self.key = url, key
        self._connections = connections

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(
            self.url,
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=WHOLE,
            connector=aiohttp.TCPConnector(limit=self._connections),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def wait_on_openai(self, body: dict[str, Any], *, tier: str) -> Outcome:
        async with self.session.post(
            "/v1/chat/completions", json=body, headers={"X-Priority": tier}
        ) as response:
            raw = await response.read()
            text = text_of(raw) if response.status == 200 else ""
            return Outcome(response.headers.get("x-request-id", ""), response.status, text, raw)

    async def stream_on_openai(self, body: dict[str, Any], *, tier: str) -> Outcome:
        async with self.session.post(
            "/v1/chat/completions", json={**body, "stream": True}, headers={"X-Priority": tier}
        ) as response:
            raw = await response.read()
            text = text_of_stream(raw) if response.status == 200 else ""
            return Outcome(response.headers.get("x-request-id", ""), response.status, text, raw)

    async def submit(self, body: dict[str, Any], *, tier: str) -> str:
        """The id of an accepted request. Raises AssertionError for anything but a 202."""
        async with self.session.post("/v1/requests", json=body, headers={"X-Priority": tier}) as response:
            raw = await response.read()
            assert response.status == 202, (response.status, raw)
            return str(msgspec.json.decode(raw)["id"])

    async def status(self, request_id: str, *, wait: str | None = None) -> dict[str, Any]:
        params = {"wait": wait} if wait else {}
        async with self.session.get(f"/v1/requests/{request_id}", params=params) as response:
            assert response.status == 200, (response.status, await response.read())
            document: dict[str, Any] = msgspec.json.decode(await response.read())
            return document

    async def result(self, request_id: str) -> Outcome:
        async with self.session.get(f"/v1/requests/{request_id}/result") as response:
            raw = await response.read()
            return Outcome(request_id, response.status, text_of(raw) if response.status == 200 else "", raw)

    async def cancel(self, request_id: str) -> int:
        async with self.session.post(f"/v1/requests/{request_id}/cancel") as response:
            return response.status

    async def wait_natively(self, body: dict[str, Any], *, tier: str) -> Outcome:
        return await self.ended(await self.submit(body, tier=tier), wait="30s")

    async def poll(self, body: dict[str, Any], *, tier: str) -> Outcome:
        return await self.ended(await self.submit(body, tier=tier), wait=None)

    async def ended(self, request_id: str, *, wait: str | None = "30s", within: float = 120) -> Outcome:
        """The outcome of an accepted request, by waiting at the native door or by polling it."""
        async with asyncio.timeout(within):
            while (await self.status(request_id, wait=wait))["status"] not in TERMINAL:
                await asyncio.sleep(0 if wait else 0.1)
        return await self.result(request_id)
