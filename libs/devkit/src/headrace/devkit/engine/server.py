"""The engine's HTTP server. Started in a test's own loop, or by __main__ as a process of its own.

Invariant: every POST to the engine that arrives is in the journal, with the very bytes that were received and answered,
and ends in exactly one of the counts completed, failed, aborted. What goes to /sim/ isn't counted.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self

from aiohttp import web

from headrace.devkit.engine.answering import reply, reset
from headrace.devkit.engine.asks import Reading
from headrace.devkit.engine.core import Admission, Core
from headrace.devkit.engine.generating import GENERATING, LEFT, Generating
from headrace.devkit.engine.journal import Exchange, Journal
from headrace.devkit.engine.pages import Page, Pages
from headrace.devkit.engine.profiles import INSTANT, Profile
from headrace.devkit.engine.refusals import EngineRefusal
from headrace.devkit.engine.stats import Stats
from headrace.devkit.ports import LOOPBACK

WITHOUT_BODY = frozenset({"GET", "HEAD"})


class FakeEngine:
    """An engine in the running loop: `async with FakeEngine() as engine: … engine.url`.

    `profile`: its speed and limits, of which `token_delay` (a fixed time for every step), `slots` (how many run at once)
    and `max_model_len` replace one each. `lengths`: tokens of an answer whose caller set no limit, from and to. `scale`:
    seconds of the engine in a real one. `plain_unnoticed`: a caller who leaves a plain call isn't noticed. `on_death` is
    what the fault `die` does: by default all connections are reset and the port is closed; start() again brings it back
    on the same port.
    """

    def __init__(
        self,
        profile: Profile = INSTANT,
        *,
        models: tuple[str, ...] = ("fake",),
        host: str = LOOPBACK,
        port: int = 0,
        token_delay: timedelta | None = None,
        slots: int | None = None,
        max_model_len: int | None = None,
        seed: int = 0,
        lengths: tuple[int, int] | None = None,
        scale: float = 1.0,
        admission: Admission | None = None,
        plain_unnoticed: bool = False,
        journal: Journal | None = None,
        on_death: Callable[[], None] | None = None,
    ) -> None:
        profile = changed(profile, token_delay, slots, max_model_len)
        reading = Reading(
            models=models, max_model_len=profile.max_model_len, by_priority=profile.by_priority, seed=seed
        )
        if lengths:
            reading = replace(reading, lengths=lengths, ends_early=True)
        self.core = Core(profile, reading, admission or Admission(), scale)
        self.journal = journal or Journal()
        self._host, self._port = host, port
        self._generating = Generating(self.core, on_death or self._crash, plain_unnoticed=plain_unnoticed)
        self._pages = Pages(self.core, self.journal)
        self._runner: web.ServerRunner | None = None
        self._crashing: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Root of all paths, without a slash: append /v1/chat/completions, or /v1 for an OpenAI client."""
        return f"http://{self._host}:{self._port}"

    @property
    def stats(self) -> Stats:
        """What was counted."""
        return self.core.stats

    async def start(self) -> Self:
        """Returns when it serves; on the same port as before, if it was started before."""
        if self._crashing:
            await self._crashing
        self.core.start()
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, backlog=1024).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def stop(self) -> None:
        """Closes the port and drops what runs. Twice is no error."""
        runner, self._runner = self._runner, None
        if runner:
            await runner.cleanup()
            await self.core.stop()

    def _crash(self) -> None:
        self._crashing = asyncio.ensure_future(self._reset_all())

    async def _reset_all(self) -> None:
        server = self._runner.server if self._runner else None
        for connection in server.connections if server else ():
            reset(connection.transport)
        await self.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method in WITHOUT_BODY:
            return shown(self._pages.get(request.path))
        body = await request.content.read()
        if request.path not in GENERATING and (
            page := self._pages.change(request.method, request.path, body)
        ):
            return shown(page)
        raw = request.raw_headers if self.journal.keeps else ()
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]
        self.core.counts.received += 1
        exchange = Exchange(self.core.counts.received, request.method, request.path, headers, body)
        self.journal.begin(exchange)
        return await self._answer_and_count(request, exchange)

    async def _answer_and_count(self, request: web.BaseRequest, exchange: Exchange) -> web.StreamResponse:
        try:
            response = await self._generating.answer(request, exchange)
        except EngineRefusal as refusal:
            exchange.limits = self.core.limits()
            response = reply(exchange, refusal.status, refusal.body, refusal.headers, refusal.content_type)
        except LEFT:
            self._count(exchange, exchange.ended or "aborted")
            raise
        self._count(exchange, exchange.ended or "answered")
        return response

    def _count(self, exchange: Exchange, how: str) -> None:
        counts = self.core.counts
        if how == "aborted":
            counts.aborted += 1
        elif how == "answered" and exchange.status == web.HTTPOk.status_code:
            counts.completed += 1
        else:
            counts.failed += 1
        self.journal.end(exchange, how)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def shown(page: Page) -> web.Response:
    """A page as the server sends it."""
    return web.Response(status=page.status, body=page.body, content_type=page.content_type)


def changed(
    profile: Profile, token_delay: timedelta | None, slots: int | None, max_model_len: int | None
) -> Profile:
    """The profile with what a caller wants otherwise. Raises ValueError for limits that contradict each other."""
    if token_delay:
        profile = profile.paced(token_delay)
    return replace(
        profile,
        max_num_seqs=slots or profile.max_num_seqs,
        max_model_len=max_model_len or profile.max_model_len,
    )
