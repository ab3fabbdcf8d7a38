"""Serves an ASGI application on a socket of our own, with uvicorn. Called by wiring.py.

Invariant: it opens no signal handlers (the supervisor has them) and writes no access log (doors/observed.py does). What a
connection may keep before it has said who it is, is bounded in bytes and in time; uvicorn bounds neither.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.contracts.mistakes import CannotRunError
from headrace.runtime.probes import reason_of

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 75
_LONGEST_HEAD_BYTES = 64 * 1024
_LONGEST_HEAD_SECONDS = 30
_TICKS_BETWEEN_SWEEPS = 20
_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 39\r\nconnection: close\r\n\r\nThe headers are larger than 64 KiB all."
)
BREAK_OFF = "headrace.break_off"
"""Extension of the ASGI scope: `call` ends the connection at once, in the midst of an answer."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose heads are bounded, and which may be broken off."""

    _head_began: float | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The first head is to come."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._head_began = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """More bytes; those of a head that isn't whole yet are counted."""
        super().data_received(data)
        if self._head_began is not None:
            self._head_bytes += len(data)
            if self._head_bytes > _LONGEST_HEAD_BYTES and not self.transport.is_closing():
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._head_began = self.loop.time()
        self.scope["extensions"] = {BREAK_OFF: {"call": self.transport.abort}}

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._head_began, self._head_bytes = None, 0
        super().on_headers_complete()

    def close_if_slow(self, now: float) -> None:
        """Closes when its head takes too long. `now` is the loop's time."""
        if self._head_began is not None and now - self._head_began > _LONGEST_HEAD_SECONDS:
            self.transport.close()


class QuietServer(uvicorn.Server):
    """A server that leaves the process's signals alone. `listening` is set once it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens."""
        await super().startup(sockets)
        self.listening.set()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; every other second slow connections are closed."""
        if counter % _TICKS_BETWEEN_SWEEPS == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.close_if_slow(now)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing to capture."""
        yield


def server_for(app: ASGIApp, *, drain: timedelta) -> QuietServer:
    """A server; connections may go on for `drain` once it is told to stop."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, int(drain.total_seconds())),
    )
    return QuietServer(config)


def listen_on(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises CannotRunError when the address can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise CannotRunError(
            f"the API can't be served at {host}:{port}: {reason_of(error)}; "
            "free it, or set HEADRACE_INGEST_HOST and HEADRACE_INGEST_PORT to another"
        ) from None
    sock.setblocking(False)
    return sock


def address_of(sock: socket.socket) -> str:
    """The base URL that the socket answers at."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
