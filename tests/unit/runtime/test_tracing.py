import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, SpanKind

from headrace.runtime.tracing import LONG_WAIT, Tracing, parse_traceparent, traceparent_of

TRACE = "0af7651916cd43dd8448eb211c80319c"
HEADER = f"00-{TRACE}-b7ad6b7169203331-01"


def trace_id_of(where: Span | Context) -> str | None:
    header = traceparent_of(where)
    return header and header.split("-")[1]


def spans(exporter: InMemorySpanExporter) -> tuple[ReadableSpan, ...]:
    return exporter.get_finished_spans()


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def test_a_callers_trace_goes_on_through_a_topic_to_the_backend() -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing.to_exporter("ingest", exporter)
    with tracing.send("headrace.requests.small.batch", parse_traceparent(HEADER)) as sent:
        header = traceparent_of(sent)
    assert header is not None
    with tracing.process(
        "headrace.requests.small.batch", parse_traceparent(header.encode()), LONG_WAIT
    ) as processed:
        assert trace_id_of(processed) == TRACE
    first, second = spans(exporter)
    assert (first.name, first.kind) == ("send headrace.requests.small.batch", SpanKind.PRODUCER)
    assert (second.name, second.kind) == ("process headrace.requests.small.batch", SpanKind.CONSUMER)
    assert parent_of(first) == 0xB7AD6B7169203331
    assert f"{parent_of(second):016x}" in header
    assert attributes(second)["messaging.operation.type"] == "process"
    assert first.resource.attributes["service.name"] == "headrace-ingest"


def test_work_after_a_long_wait_is_a_new_trace_linked_to_the_request() -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing.to_exporter("scheduler", exporter)
    waited = LONG_WAIT + timedelta(seconds=1)
    with tracing.process("requests", parse_traceparent(HEADER), waited) as span:
        assert trace_id_of(span) != TRACE
    (done,) = spans(exporter)
    assert done.parent is None
    assert [link.context.trace_id for link in done.links] == [int(TRACE, 16)]


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "",
        b"\xff\xfe",
        "00-1-2-3",
        HEADER + "x",
        f"ff-{TRACE}-b7ad6b7169203331-01",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
    ],
)
def test_a_wrong_header_starts_a_new_trace(wrong: str | bytes | None) -> None:
    tracing = Tracing.create("ingest")
    with tracing.server("POST /v1/requests", parse_traceparent(wrong, "x")) as span:
        assert trace_id_of(span) not in (None, TRACE)


@pytest.mark.parametrize("flags", ["00", "01"])
def test_without_a_collector_ids_and_the_callers_sampling_still_travel(flags: str) -> None:
    tracing = Tracing.create("ingest")
    with tracing.client("chat small", parse_traceparent(HEADER[:-2] + flags)) as span:
        header = traceparent_of(span)
    assert header is not None
    assert header.startswith(f"00-{TRACE}-")
    assert header.endswith(f"-{flags}")


def test_a_failure_is_recorded_by_its_type_and_never_by_its_text() -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing.to_exporter("ingest", exporter)
    with pytest.raises(ValueError, match="SECRET"), tracing.client("chat", parse_traceparent(None)):
        raise ValueError("SECRET")
    (span,) = spans(exporter)
    assert attributes(span)["error.type"] == "ValueError"
    assert "SECRET" not in span.to_json()


def test_no_trace_has_no_header() -> None:
    assert traceparent_of(parse_traceparent(None)) is None
    assert trace_id_of(parse_traceparent(None)) is None
    assert trace_id_of(parse_traceparent(HEADER)) == TRACE


class StuckExporter(SpanExporter):
    def __init__(self) -> None:
        self.release = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.release.wait(10)


def test_shutting_down_gives_up_on_a_collector_that_hangs() -> None:
    exporter = StuckExporter()
    assert not Tracing.to_exporter("ingest", exporter).shutdown(timedelta(milliseconds=20))
    exporter.release.set()
    assert Tracing.create("ingest").shutdown()
