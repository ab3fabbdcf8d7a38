"""The fake engine's HTTP server. Started in a test's own loop, or by __main__ as a process of its own.

Invariant: every POST that arrives is in the journal, with the very bytes that were received and answered, and
ends in exactly one of the counts completed, failed, aborted.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import islice
from types import TracebackType
from typing import Self

import msgspec
import orjson
from aiohttp import web

from headrace.devkit.engine.answering import Answering, reply, reset
from headrace.devkit.engine.asks import FAULT_REFUSALS, Refusal, read_ask
from headrace.devkit.engine.faults import Fault, FaultCounter, asked_fault
from headrace.devkit.engine.journal import Exchange, Journal
from headrace.devkit.engine.stats import Stats
from headrace.devkit.engine.wire import Answer
from headrace.devkit.ports import LOOPBACK

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


class FakeEngine:
    """An OpenAI-compatible engine in the running loop: `async with FakeEngine() as engine: … engine.url`.

    `token_delay`: the pace of every answer; `slots`: how many run at once, the rest wait in order. `on_death`
    is what the fault `die` does: by default all connections are reset and the port is closed; start() again
    brings it back on the same port.
    """

    def __init__(
        self,
        *,
        models: tuple[str, ...] = ("fake",),
        port: int = 0,
        token_delay: timedelta = timedelta(0),
        slots: int = 1024,
        max_model_len: int = 32_768,
        journal: Journal | None = None,
        on_death: Callable[[], None] | None = None,
    ) -> None:
        self.models, self.slots, self.max_model_len = models, slots, max_model_len
        self.journal, self.stats = journal or Journal(), Stats()
        self._port, self._delay_s = port, token_delay.total_seconds()
        self._die = on_death or self._crash
        self._free, self._faults, self._answers = asyncio.Semaphore(slots), FaultCounter(), 0
        self._runner: web.ServerRunner | None = None
        self._crashing: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Root of all paths, without a slash: append /v1/chat/completions, or /v1 for an OpenAI client."""
        return f"http://{LOOPBACK}:{self._port}"

    async def start(self) -> Self:
        """Returns when it serves; on the same port as before, if it was started before."""
        if self._crashing:
            await self._crashing
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, self._port, backlog=1024).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Closes the port and drops what runs. Twice is no error."""
        runner, self._runner = self._runner, None
        if runner:
            await runner.cleanup()

    def _crash(self) -> None:
        self._crashing = asyncio.ensure_future(self._reset_all())

    async def _reset_all(self) -> None:
        server = self._runner.server if self._runner else None
        for connection in server.connections if server else ():
            reset(connection.transport)
        await self.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET":
            return self._page(request.path)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers]
        body = await request.content.read()
        self.stats.received += 1
        exchange = Exchange(self.stats.received, request.method, request.path, headers, body)
        self.journal.begin(exchange)
        return await self._answer_and_count(request, exchange)

    async def _answer_and_count(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        try:
            response = await self._answer(request, exchange)
        except Refusal as refusal:
            response = reply(exchange, refusal.status, refusal.body, refusal.headers)
        except (asyncio.CancelledError, ConnectionResetError):
            self._count(exchange, exchange.ended or "aborted")
            raise
        self._count(exchange, exchange.ended or "answered")
        return response

    def _count(self, exchange: Exchange, how: str) -> None:
        if how == "aborted":
            self.stats.aborted += 1
        elif how == "answered" and exchange.status == web.HTTPOk.status_code:
            self.stats.completed += 1
        else:
            self.stats.failed += 1
        self.journal.end(exchange, how)

    async def _answer(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        if exchange.path not in {CHAT, COMPLETIONS}:
            raise Refusal(404, "NotFoundError", "Not Found")
        chat = exchange.path == CHAT
        wanted = self._wanted_fault(request, exchange.request)
        ask = read_ask(exchange.request, chat=chat, models=self.models, max_model_len=self.max_model_len)
        fault = self._faults.due(ask.prompt, wanted)
        if fault and fault.kind in FAULT_REFUSALS:
            raise Refusal(*FAULT_REFUSALS[fault.kind], retry_after_s=fault.number)
        async with self._slot():
            self._answers += 1
            name = request.headers.get("X-Request-Id") or f"{self._answers:032x}"
            answer = Answer(ask, f"{'chatcmpl' if chat else 'cmpl'}-{name}", int(time.time()))
            making = Answering(request, exchange, answer, fault=fault, delay_s=self._delay_s, die=self._die)
            tokens = list(islice(ask.tokens(), ask.max_tokens))
            try:
                response = await (making.stream if ask.stream else making.plain)(tokens)
            except (asyncio.CancelledError, ConnectionResetError):
                self.stats.wasted_tokens += making.generated
                raise
            finally:
                self.stats.generated_tokens += making.generated
            self.stats.prompt_tokens += ask.prompt_tokens
            return response

    def _wanted_fault(self, request: web.BaseRequest, body: bytes) -> Fault | None:
        try:
            return asked_fault(request.headers.get("X-Fault"), body)
        except ValueError as error:
            raise Refusal(400, "BadRequestError", str(error)) from error

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        self.stats.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.stats.waiting -= 1
        self.stats.running += 1
        self.stats.most_running = max(self.stats.most_running, self.stats.running)
        try:
            yield
        finally:
            self.stats.running -= 1
            self._free.release()

    def _page(self, path: str) -> web.Response:
        pages: dict[str, Callable[[], bytes]] = {
            "/health": bytes,
            "/ping": bytes,
            "/v1/models": self._models,
            "/metrics": lambda: self.stats.metrics(self.models[0], self.slots).encode(),
            "/sim/stats": lambda: msgspec.json.encode(self.stats),
            "/sim/journal": lambda: msgspec.json.encode(list(self.journal.exchanges)),
        }
        if path not in pages:
            return web.Response(status=404, body=b'{"detail":"Not Found"}', content_type="application/json")
        kind = "text/plain" if path == "/metrics" else "application/json"
        return web.Response(body=pages[path](), content_type=kind)

    def _models(self) -> bytes:
        models = [
            {
                "id": name,
                "object": "model",
                "created": 0,
                "owned_by": "vllm",
                "max_model_len": self.max_model_len,
            }
            for name in self.models
        ]
        return orjson.dumps({"object": "list", "data": models})

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
