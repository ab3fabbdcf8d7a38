"""Trace context from the caller through Kafka to the backend and back, and the spans of our own work.

Built in each `__main__.py`; names follow OpenTelemetry's messaging conventions. Invariant: a wrong header starts a new
trace and never fails; ids travel on even where no collector is configured; shutting down takes a bounded time.
"""

import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Self

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    get_current_span,
    set_span_in_context,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

LONG_WAIT = timedelta(minutes=1)
"""After a longer wait in the queue the work is a trace of its own, linked to the request's: collectors close traces."""

FLUSH = timedelta(seconds=3)
"""How long shutting down may wait for a collector."""

_PROPAGATOR = TraceContextTextMapPropagator()


class Tracing:
    """Makes spans and carries their context over the wire. One for each service of a process."""

    def __init__(self, provider: TracerProvider, version: str | None = None) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("headrace", version)

    @classmethod
    def create(cls, service: str, otlp_endpoint: str | None = None) -> Self:
        """Sends spans to an OTLP/HTTP collector (base URL or whole path), or to nobody when there is none."""
        if otlp_endpoint is None:
            return cls._with(service, None)
        exporter = OTLPSpanExporter(endpoint=_traces_url(otlp_endpoint), timeout=FLUSH.total_seconds())
        return cls._with(service, BatchSpanProcessor(exporter))

    @classmethod
    def to_exporter(cls, service: str, exporter: SpanExporter) -> Self:
        """Sends each span at once to `exporter`: for tests."""
        return cls._with(service, SimpleSpanProcessor(exporter))

    @classmethod
    def _with(cls, service: str, processor: SpanProcessor | None) -> Self:
        # Without a collector a new trace isn't recorded, but a caller's decision to sample travels on unchanged.
        root = ALWAYS_OFF if processor is None else ALWAYS_ON
        resource = Resource.create({"service.name": f"headrace-{service}", "service.namespace": "headrace"})
        provider = TracerProvider(sampler=ParentBased(root), resource=resource, shutdown_on_exit=False)
        if processor is not None:
            provider.add_span_processor(processor)
        return cls(provider)

    @contextlib.contextmanager
    def server(self, route: str, parent: Context) -> Iterator[Span]:
        """The handling of one HTTP request, such as `POST /v1/requests`."""
        with self._span(route, SpanKind.SERVER, parent, (), {}) as span:
            yield span

    @contextlib.contextmanager
    def client(self, name: str, parent: Context) -> Iterator[Span]:
        """A call to somebody else, such as a backend: `chat small`."""
        with self._span(name, SpanKind.CLIENT, parent, (), {}) as span:
            yield span

    @contextlib.contextmanager
    def send(self, destination: str, parent: Context) -> Iterator[Span]:
        """The writing of one record to a topic."""
        with self._span(
            f"send {destination}", SpanKind.PRODUCER, parent, (), _messaging("send", destination)
        ) as span:
            yield span

    @contextlib.contextmanager
    def process(self, destination: str, parent: Context, waited: timedelta = timedelta()) -> Iterator[Span]:
        """The handling of one record from a topic, `waited` after it was written: child of the writer's span, or linked."""
        writer = get_current_span(parent).get_span_context()
        links: tuple[Link, ...] = ()
        if waited > LONG_WAIT and writer.is_valid:
            parent, links = Context(), (Link(writer),)
        attributes = _messaging("process", destination)
        with self._span(f"process {destination}", SpanKind.CONSUMER, parent, links, attributes) as span:
            yield span

    @contextlib.contextmanager
    def _span(
        self,
        name: str,
        kind: SpanKind,
        parent: Context,
        links: tuple[Link, ...],
        attributes: dict[str, AttributeValue],
    ) -> Iterator[Span]:
        span = self._tracer.start_span(name, context=parent, kind=kind, links=links, attributes=attributes)
        # An exception's text could quote a prompt, so only its type is recorded.
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    def shutdown(self, within: timedelta = FLUSH) -> bool:
        """Sends what is left; False when that took too long and was given up."""
        thread = threading.Thread(target=self._provider.shutdown, name="trace-flush", daemon=True)
        thread.start()
        thread.join(within.total_seconds())
        return not thread.is_alive()


def parse_traceparent(traceparent: str | bytes | None, tracestate: str | bytes | None = None) -> Context:
    """The context that W3C headers name; an empty one, so a new trace, when they are absent or wrong."""
    carrier = {"traceparent": _text(traceparent), "tracestate": _text(tracestate)}
    return _PROPAGATOR.extract({name: value for name, value in carrier.items() if value}, context=Context())


def traceparent_of(where: Span | Context) -> str | None:
    """The W3C header that makes the next process continue here; None when there is no trace."""
    carrier: dict[str, str] = {}
    context = where if isinstance(where, Context) else set_span_in_context(where, Context())
    _PROPAGATOR.inject(carrier, context=context)
    return carrier.get("traceparent")


def _messaging(operation: str, destination: str) -> dict[str, AttributeValue]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
    }


def _traces_url(endpoint: str) -> str:
    return endpoint if endpoint.endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"


def _text(header: str | bytes | None) -> str:
    return header.decode("latin-1") if isinstance(header, bytes) else header or ""
