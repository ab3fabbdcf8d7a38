"""A backend over HTTP. The only module of the worker that speaks aiohttp; built by wiring.

Invariant: body bytes pass untouched in both directions; giving a call up closes its socket; a POST is repeated only where a
kept-alive connection turned out to be closed before a byte of the answer came.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace

import aiohttp
from yarl import URL

from headrace.inference_worker.decisions.classify_failure import Broken
from headrace.inference_worker.decisions.how_to_call import BackendKind
from headrace.inference_worker.decisions.what_is_left import HEADERS
from headrace.inference_worker.ports import BackendCall, BrokenCallError

_HEALTH_PATH = {
    BackendKind.VLLM: "/health",
    BackendKind.LLAMA_CPP: "/health",
    BackendKind.OPENAI: "/v1/models",
}
_METRICS_PATH = "/metrics"
_LONGEST_PAGE = 4 * 1024 * 1024
_RACE = timedelta(seconds=1)
"""A kept-alive connection that the backend had closed shows at once; what breaks off later was being worked on."""


@dataclass(slots=True)
class _Attempted:
    """Whether the last connection taken was a used one; filled in by aiohttp's tracing."""

    reused: bool = False


@dataclass(slots=True)
class HttpReply:
    """As ports.BackendReply."""

    response: aiohttp.ClientResponse
    read_to_end: bool = field(default=False)

    @property
    def status(self) -> int:
        """As BackendReply.status."""
        return self.response.status

    @property
    def content_type(self) -> str:
        """As BackendReply.content_type."""
        return _readable(self.response.headers.get("Content-Type", ""))

    @property
    def retry_after(self) -> str | None:
        """As BackendReply.retry_after."""
        return self.response.headers.get("Retry-After")

    @property
    def limits(self) -> dict[str, str]:
        """As BackendReply.limits."""
        headers = self.response.headers
        return {name: headers[name] for name in HEADERS if name in headers}

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """As BackendReply.pieces."""
        try:
            async for piece in self.response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenCallError(Broken.CUT_OFF) from error
        self.read_to_end = True


class HttpBackend:
    """As ports.Backend. Made and closed inside of a running event loop."""

    def __init__(
        self,
        url: str,
        *,
        kind: BackendKind,
        api_key: str | None,
        connect_within: timedelta,
        probe_within: timedelta,
    ) -> None:
        self._url = URL(url.rstrip("/").removesuffix("/v1"))
        self._kind, self._probe_within = kind, probe_within
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_within.total_seconds())
        self._kept = _session(timeout, keep=True)
        self._fresh = _session(timeout, keep=False)

    async def close(self) -> None:
        """Closes all connections."""
        await self._kept.close()
        await self._fresh.close()

    @asynccontextmanager
    async def open(self, call: BackendCall) -> AsyncIterator[HttpReply]:
        """As Backend.open."""
        reply = HttpReply(await self._head(call))
        try:
            yield reply
        finally:
            if reply.read_to_end:
                reply.response.release()
            else:
                reply.response.close()

    async def alive(self) -> bool:
        """As Backend.alive. An OpenAI-like service is alive when it answers at all but with a server error."""
        timeout = aiohttp.ClientTimeout(total=self._probe_within.total_seconds())
        try:
            async with self._fresh.get(
                self._at(_HEALTH_PATH[self._kind]), headers=self._headers, timeout=timeout
            ) as response:
                return response.status < (500 if self._kind is BackendKind.OPENAI else 300)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return False

    async def metrics(self) -> str | None:
        """As Metered.metrics. Of an OpenAI-like service nothing is known."""
        if self._kind is BackendKind.OPENAI:
            return None
        timeout = aiohttp.ClientTimeout(total=self._probe_within.total_seconds())
        try:
            async with self._fresh.get(
                self._at(_METRICS_PATH), headers=self._headers, timeout=timeout
            ) as response:
                page = await response.content.read(_LONGEST_PAGE) if response.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None
        return None if page is None else page.decode(errors="replace")

    async def _head(self, call: BackendCall) -> aiohttp.ClientResponse:
        """The response once its head is there; llama.cpp closes after each stream without saying so, so its aren't kept."""
        keep = not (call.streamed and self._kind is BackendKind.LLAMA_CPP)
        attempted = _Attempted()
        loop_time = asyncio.get_running_loop().time
        begun = loop_time()
        try:
            return await self._post(self._kept if keep else self._fresh, call, attempted)
        except aiohttp.ClientConnectorError as error:
            raise BrokenCallError(Broken.NOT_CONNECTED) from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                raise BrokenCallError(Broken.NOT_CONNECTED) from error
            if not attempted.reused or loop_time() - begun > _RACE.total_seconds():
                raise BrokenCallError(Broken.CUT_OFF) from error
        return await self._once_more(call)

    async def _once_more(self, call: BackendCall) -> aiohttp.ClientResponse:
        """Never NOT_CONNECTED: the first time it may have been read, and be what ended the backend."""
        try:
            return await self._post(self._fresh, call, _Attempted())
        except (aiohttp.ClientError, OSError) as error:
            raise BrokenCallError(Broken.CUT_OFF) from error

    async def _post(
        self, session: aiohttp.ClientSession, call: BackendCall, attempted: _Attempted
    ) -> aiohttp.ClientResponse:
        headers = {
            "Content-Type": call.content_type,
            "Accept-Encoding": "identity",
            **self._headers,
            **call.headers,
        }
        return await session.post(
            self._at(call.path),
            data=call.body,
            headers=headers,
            allow_redirects=False,
            trace_request_ctx=attempted,
        )

    def _at(self, path: str) -> URL:
        return self._url.join(URL(self._url.path.rstrip("/") + path, encoded=True))


def _readable(content_type: str) -> str:
    """A type that can stand in a record and in a header of ours; what is neither is cut off with the parameters."""
    for said in (content_type, content_type.partition(";")[0]):
        if said.isascii() and said.isprintable():
            return said
    return ""


def _session(timeout: aiohttp.ClientTimeout, *, keep: bool) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, force_close=not keep)
    return aiohttp.ClientSession(
        connector=connector, timeout=timeout, trace_configs=[_watching_reuse()], read_bufsize=2**18
    )


def _watching_reuse() -> aiohttp.TraceConfig:
    async def reused(
        _: aiohttp.ClientSession, context: SimpleNamespace, __: aiohttp.TraceConnectionReuseconnParams
    ) -> None:
        if isinstance(context.trace_request_ctx, _Attempted):
            context.trace_request_ctx.reused = True

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(reused)
    return tracing
