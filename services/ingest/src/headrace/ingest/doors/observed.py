"""Around every HTTP request: the limit of open ones, its span, its metrics, its log line, and the last net for mistakes.

The outermost layer of doors/app.py. Invariant: each request has one span and is counted once; nothing raised in a door
reaches the server, and no line holds a body.
"""

from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.trace import Span
from starlette.datastructures import Headers as HttpHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.bus.messages import Headers
from headrace.ingest.decisions.may_admit import may_open
from headrace.ingest.doors.front import Seen
from headrace.ingest.ports import GoneError
from headrace.ingest.refusal import Refusal
from headrace.runtime.logging import get_logger
from headrace.runtime.metrics import Metrics
from headrace.runtime.rarely import Rarely
from headrace.runtime.telemetry import Telemetry
from headrace.runtime.tracing import parse_traceparent, traceparent_of

_PROBES = ("/livez", "/readyz")
_HUNG_UP = 499
_UNAVAILABLE = 503
_LONGEST_TRACESTATE = 512


class HttpMetrics:
    """What is counted of the API."""

    def __init__(self, metrics: Metrics) -> None:
        self.requests = metrics.counter(
            "ingest_requests_total", "HTTP requests answered.", ("route", "status", "tier")
        )
        self.seconds = metrics.histogram(
            "ingest_request_seconds", "From an HTTP request to the end of its answer.", ("route",)
        )
        self.open = metrics.gauge("ingest_open_requests", "HTTP requests that are open now.")


@dataclass(slots=True)
class _Sent:
    """What was sent of an answer."""

    status: int = 0


class Observed:
    """ASGI middleware."""

    def __init__(
        self, app: ASGIApp, *, telemetry: Telemetry, max_open: int, face: Callable[[str, Refusal], Response]
    ) -> None:
        self._app, self._telemetry, self._max_open, self._face = app, telemetry, max_open, face
        self._metrics, self._open = HttpMetrics(telemetry.metrics), 0
        self._log = get_logger("http")
        self._rarely = Rarely(self._log, telemetry.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; probes pass unobserved."""
        if scope["type"] != "http" or scope["path"] in _PROBES:
            await self._app(scope, receive, send)
            return
        began_ms = self._telemetry.clock.now().boot_ms
        self._count(1)
        sent = _Sent()
        seen = scope["headrace"] = Seen()
        headers = HttpHeaders(scope=scope)
        try:
            with self._telemetry.tracing.server(scope["method"], _parent(headers)) as span:
                seen.trace = _trace(span, headers)
                await self._answer(scope, receive, send, sent)
                _describe(span, scope, seen, sent)
        finally:
            self._count(-1)
            self._tell(scope, seen, sent, self._telemetry.clock.now().boot_ms - began_ms)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, sent: _Sent) -> None:
        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent.status = message["status"]
            await send(message)

        refusal: Refusal | None = None
        try:
            may_open(self._open - 1, self._max_open)
            await self._app(scope, receive, noting)
        except GoneError:
            sent.status = sent.status or _HUNG_UP
        except Refusal as error:
            refusal = error
        except Exception:  # noqa: BLE001 the last net: logged here, told without detail
            self._log.exception("a door failed", path=scope["path"], request_id=scope["headrace"].request_id)
            refusal = mistake()
        if refusal is not None and not sent.status:
            scope["headrace"].refused = refusal
            await self._face(scope["path"], refusal)(scope, receive, noting)

    def _count(self, by: int) -> None:
        self._open += by
        self._metrics.open.set(self._open)

    def _tell(self, scope: Scope, seen: Seen, sent: _Sent, took_ms: int) -> None:
        route = _route(scope)
        self._metrics.requests.labels(route, str(sent.status), seen.tier).inc()
        self._metrics.seconds.labels(route).observe(took_ms / 1000)
        turned_away = seen.refused is not None and seen.refused.status == _UNAVAILABLE
        if seen.refused is not None and turned_away:
            code = seen.refused.code
            self._rarely.warning("callers are turned away", subject=f"{code} {route}", code=code, route=route)
        log = self._log.warning if sent.status >= 500 and not turned_away else self._log.debug
        log(
            "answered",
            method=scope["method"],
            route=route,
            status=sent.status,
            tier=seen.tier,
            tenant=seen.tenant,
            request_id=seen.request_id,
            took_ms=took_ms,
        )


def mistake() -> Refusal:
    """What a caller is told of a mistake of ours."""
    return Refusal(500, "internal_error", "Something went wrong here, not in your request.")


def _route(scope: Scope) -> str:
    """The route's pattern, never the path itself: a path is anybody's."""
    return scope["headrace"].route or getattr(scope.get("route"), "path", None) or "unmatched"


def _parent(headers: HttpHeaders) -> Context:
    return parse_traceparent(headers.get("traceparent"), headers.get("tracestate"))


def _trace(span: Span, headers: HttpHeaders) -> Headers:
    """The headers that go with the record: this span, and the caller's own state."""
    traceparent = traceparent_of(span)
    if traceparent is None:
        return ()
    state = headers.get("tracestate", "")
    if not state or not headers.get("traceparent") or len(state) > _LONGEST_TRACESTATE:
        return (("traceparent", traceparent.encode()),)
    return (("traceparent", traceparent.encode()), ("tracestate", state.encode("latin-1", "replace")))


def _describe(span: Span, scope: Scope, seen: Seen, sent: _Sent) -> None:
    if not span.is_recording():
        return
    route = _route(scope)
    span.update_name(f"{scope['method']} {route}")
    span.set_attribute("http.request.method", scope["method"])
    span.set_attribute("http.route", route)
    span.set_attribute("http.response.status_code", sent.status)
    if seen.request_id is not None:
        span.set_attribute("messaging.message.id", seen.request_id)
