"""Serves an ASGI application on a socket of our own, with uvicorn. Called by wiring.py.

Invariant: it opens no signal handlers (the supervisor has them) and writes no access log (doors/observed.py does).
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from datetime import timedelta

import uvicorn
from starlette.types import ASGIApp

_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 75


class QuietServer(uvicorn.Server):
    """A server that leaves the process's signals alone. `listening` is set once it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing to capture."""
        yield


def server_for(app: ASGIApp, *, drain: timedelta) -> QuietServer:
    """A server; connections may go on for `drain` once it is told to stop."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, int(drain.total_seconds())),
    )
    return QuietServer(config)


def listen_on(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError when the address can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def address_of(sock: socket.socket) -> str:
    """The base URL that the socket answers at."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
