"""The drill's callers: submit, stream, follow, cancel, and note at once whatever they were told. Called by the drill.

Invariant: a 202 is in the journal before anything else is done with it; an event that will be sent again after a reconnect
is noted only once, when its id has come.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from tests.support.callers import chat_body, text_of
from tests.support.checker.history import Accepted, CancelAsked, History, Seen
from tests.support.stacks import WEIGHTS

TIERS = ("interactive", "standard", "batch")
BUSY = 18
"""So many attempts run at a time, about, whatever the rate."""
SLOW = (("[[fault:slow:100]]", 15), ("[[fault:slow:150]]", 50))
SLOW_S = 4.5
DOORS = (
    "submit",
    "submit",
    "follow",
    "follow",
    "follow",
    "wait",
    "stream",
    "cancel",
    "look",
    "follow and cancel",
)
FOLLOW_S, ANSWER_S, LONGEST_PAUSE_S = 240.0, 90.0, 8.0
FAILED = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass
class Callers:
    """All of them. `urls`: the replicas, any of which will do. `seconds`: how long they submit."""

    urls: list[str]
    keys: dict[str, str]
    history: History
    dice: random.Random
    refused: Counter[str] = field(default_factory=Counter)
    restarts: int = 0

    async def submit_all(self, requests: int, seconds: float) -> None:
        """Returns when every caller has what it wanted, or has given up."""
        slow = min(0.6, BUSY * seconds / (requests * SLOW_S))
        began = time.monotonic()
        async with self._session() as session, asyncio.TaskGroup() as group:
            for number in range(requests):
                due = began + seconds * (number + self.dice.random()) / requests
                await asyncio.sleep(max(0, due - time.monotonic()))
                group.create_task(self._one(session, number, slow=self.dice.random() < slow))

    def _session(self) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=5)
        return aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))

    async def _one(self, session: aiohttp.ClientSession, number: int, *, slow: bool) -> None:
        door, tenant = self.dice.choice(DOORS), self.dice.choice(list(WEIGHTS))
        mark, tokens = self.dice.choice(SLOW) if slow else ("", 3)
        stream = door in {"follow", "stream", "follow and cancel"} or self.dice.random() < 0.2
        body = chat_body(f"drill {number}{mark}", model="fake", max_tokens=tokens, stream=stream)
        call = _Call(self, session, tenant, self.dice.choice(TIERS), body)
        try:
            if door in {"wait", "stream"}:
                await call.openai(stream=door == "stream")
            else:
                await call.native(door)
        except FAILED as error:
            self.refused[f"{door}: {type(error).__name__} {error}"[:100]] += 1

    def url(self) -> str:
        """A replica."""
        return self.dice.choice(self.urls)


@dataclass
class _Call:
    """One caller with one request."""

    callers: Callers
    session: aiohttp.ClientSession
    tenant: str
    tier: str
    body: dict[str, Any]

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.callers.keys[self.tenant]}", "X-Priority": self.tier}

    def _note(self, *entries: Accepted | Seen | CancelAsked) -> None:
        self.callers.history.add(*entries)

    def _accepted(self, request: str) -> None:
        prompt = self.body["messages"][0]["content"]
        self._note(Accepted(id=request, tenant=self.tenant, prompt=prompt, at_ms=_now_ms()))

    async def openai(self, *, stream: bool) -> None:
        """Waits on an open connection. Whoever loses it may have cancelled, as far as the replica can tell."""
        url, body, request = self.callers.url(), {**self.body, "stream": stream}, ""
        try:
            async with self.session.post(
                f"{url}/v1/chat/completions", json=body, headers=self._headers
            ) as answer:
                if answer.status != 200:
                    self.callers.refused[f"openai: {answer.status} {_code(await answer.read())}"] += 1
                    return
                request = answer.headers["x-request-id"]
                self._accepted(request)
                if stream:
                    await self._read_stream(request, answer)
                else:
                    text = text_of(await answer.read())
                    self._note(Seen(id=request, event="text", text=text), Seen(id=request, event="end"))
        except (*FAILED, msgspec.DecodeError):
            if request:
                self._note(Seen(id=request, event="broken"), CancelAsked(id=request))
            raise

    async def _read_stream(self, request: str, answer: aiohttp.ClientResponse) -> None:
        async for event in _events(answer):
            if event.data == "[DONE]":
                self._note(Seen(id=request, event="end"))
                return
            document = msgspec.json.decode(event.data)
            if "error" in document:
                break
            delta = document["choices"][0]["delta"] if document["choices"] else {}
            self._note(Seen(id=request, event="text", text=delta.get("content") or ""))
        self._note(Seen(id=request, event="broken"), CancelAsked(id=request))

    async def native(self, door: str) -> None:
        """Submits, and then does what its door says."""
        url = self.callers.url()
        async with self.session.post(f"{url}/v1/requests", json=self.body, headers=self._headers) as answer:
            raw = await answer.read()
            if answer.status != 202:
                self.callers.refused[f"submit: {answer.status} {_code(raw)}"] += 1
                return
        request = str(msgspec.json.decode(raw)["id"])
        self._accepted(request)
        if door == "follow":
            await self._follow(request)
        elif door == "cancel":
            await self._cancel(request)
        elif door == "follow and cancel":
            await asyncio.gather(self._follow(request), self._cancel(request))
        elif door == "look":
            await self._look(request)

    async def _cancel(self, request: str) -> None:
        await asyncio.sleep(self.callers.dice.uniform(0, 3))
        self._note(CancelAsked(id=request))
        url = f"{self.callers.url()}/v1/requests/{request}/cancel"
        async with self.session.post(url, headers=self._headers) as answer:
            if answer.status == 202:
                self._note(CancelAsked(id=request, kept=True, at_ms=_now_ms()))

    async def _look(self, request: str) -> None:
        for _ in range(4):
            await asyncio.sleep(self.callers.dice.uniform(0, 2))
            url = f"{self.callers.url()}/v1/requests/{request}"
            async with self.session.get(url, headers=self._headers) as answer:
                if answer.status == 200:
                    status = msgspec.json.decode(await answer.read())["status"]
                    self._note(
                        Seen(id=request, reader="looks", event="status", status=status, at_ms=_now_ms())
                    )

    async def _follow(self, request: str) -> None:
        """Reads the events to the end, over as many connections as it takes."""
        deadline, last, pause_s = time.monotonic() + FOLLOW_S, "", 0.5
        while time.monotonic() < deadline:
            try:
                last, ended = await self._follow_once(request, last)
            except FAILED:
                ended = False
            if ended:
                return
            self._note(Seen(id=request, reader="follows", event="broken"))
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _follow_once(self, request: str, last: str) -> tuple[str, bool]:
        """The last id that came, and whether that was the end."""
        headers = self._headers | ({"Last-Event-ID": last} if last else {})
        url = f"{self.callers.url()}/v1/requests/{request}/events"
        pending: list[Seen] = []
        try:
            async with self.session.get(url, headers=headers) as answer:
                if answer.status != 200:
                    return last, False
                async for event in _events(answer):
                    pending += self._seen(request, event)
                    if event.id or event.name == "status":
                        self._note(*pending)
                        pending, last = [], event.id or last
                    if event.name == "end":
                        self._note(*pending)
                        return last, True
        except FAILED:
            return last, False
        return last, False

    def _seen(self, request: str, event: "Event") -> list[Seen]:
        if event.name not in {"status", "text", "restart", "end"}:
            return []
        self.callers.restarts += event.name == "restart"
        document = msgspec.json.decode(event.data)
        text, status = document.get("text", ""), document.get("status")
        return [
            Seen(id=request, reader="follows", event=event.name, text=text, status=status, at_ms=_now_ms())
        ]


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event."""

    name: str
    id: str
    data: str


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[Event]:
    """Whole events only: what a broken connection leaves of one is none."""
    fields: dict[str, str] = {}
    async for raw in answer.content:
        line = raw.decode().rstrip("\n")
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and fields:
            yield Event(fields.get("event", ""), fields.get("id", ""), fields.get("data", ""))
            fields = {}


def _code(raw: bytes) -> str:
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return ""
    return str(document.get("code") or document.get("error", {}).get("code"))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
