"""/livez, /readyz and /metrics over HTTP: on an event loop, or beside a plain loop in a thread of its own.

Opened by each `__main__.py` around its supervisor. Invariant: a probe only reads, and 503 says which component is not
well and why.
"""

import contextlib
import os
import socket
import socketserver
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from headrace.contracts.mistakes import CannotRunError
from headrace.runtime.health import Health, Trouble

_JSON = "application/json"
_PATIENCE = timedelta(seconds=5)


@dataclass(frozen=True)
class ProbeAnswer:
    """An HTTP answer."""

    status: int
    content_type: str
    body: bytes


def answer(health: Health, registry: CollectorRegistry, path: str, accept: str) -> ProbeAnswer:
    """What a GET of `path` gets."""
    if path == "/livez":
        return _judged("live", health.verdict().not_live)
    if path == "/readyz":
        return _judged("ready", health.verdict().not_ready)
    if path == "/metrics":
        encode, content_type = choose_encoder(accept)
        return ProbeAnswer(200, content_type, encode(registry))
    return ProbeAnswer(404, _JSON, msgspec.json.encode({"error": "there are /livez, /readyz and /metrics"}))


@contextlib.asynccontextmanager
async def serving_probes(
    health: Health, registry: CollectorRegistry, host: str, port: int
) -> AsyncIterator[int]:
    """Answers on the running event loop while entered; yields the port. Raises OSError when the port is taken."""

    async def handle(request: web.Request) -> web.Response:
        found = answer(health, registry, request.path, request.headers.get("Accept", ""))
        return web.Response(
            status=found.status, body=found.body, headers={"Content-Type": found.content_type}
        )

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise _cant_listen(host, port, error) from None
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def serving_probes_in_thread(
    health: Health, registry: CollectorRegistry, host: str, port: int
) -> Iterator[int]:
    """As `serving_probes`, for a service whose loop is plain: the one thread of ours that it may have."""
    try:
        server = _ProbeServer(host, port, _handler(health, registry))
    except OSError as error:
        raise _cant_listen(host, port, error) from None
    thread = threading.Thread(
        target=server.serve_forever, name="probes", daemon=True, kwargs={"poll_interval": 0.05}
    )
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_PATIENCE.total_seconds())


class _ProbeServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        """Without HTTPServer's look-up of the host's name, which can take seconds."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """A prober that hangs up is nobody's business."""


def _handler(health: Health, registry: CollectorRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE.total_seconds()
        server_version = "headrace"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            found = answer(health, registry, path, self.headers.get("Accept", ""))
            self.send_response(found.status)
            self.send_header("Content-Type", found.content_type)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 its name in http.server
            """Probes come every few seconds: no line for each."""

    return Handler


def _cant_listen(host: str, port: int, error: OSError) -> CannotRunError:
    return CannotRunError(
        f"/livez, /readyz and /metrics can't be served at {host}:{port}: {reason_of(error)}; "
        "free it, or set HEADRACE_HEALTH_HOST and HEADRACE_HEALTH_PORT to another"
    )


def reason_of(error: OSError) -> str:
    """What the system says of it, without what libraries wrap around it."""
    return os.strerror(error.errno) if error.errno else str(error)


def _judged(word: str, troubles: tuple[Trouble, ...]) -> ProbeAnswer:
    status = f"not {word}" if troubles else word
    body = msgspec.json.encode({"status": status, "components": troubles})
    return ProbeAnswer(503 if troubles else 200, _JSON, body)
