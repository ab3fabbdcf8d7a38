"""Log lines of a process: JSON for programs or columns for people, with the ids of what is being worked on.

`configure_logging` is called once by each `__main__.py`. Standard-library loggers (uvicorn, aiokafka, SQLAlchemy) go
through the same chain. Invariant: a line never holds a prompt (log_safety), and a broken log stream stops no service.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, cast

import orjson
import structlog
from opentelemetry import trace
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from headrace.runtime.clock import Clock, SystemClock
from headrace.runtime.log_safety import refuse_payloads, short_exception

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "console"]


def configure_logging(
    service: str,
    level: Level = "info",
    format: Format = "json",  # noqa: A002 the setting's name
    stream: TextIO | None = None,
    clock: Clock | None = None,
) -> None:
    """Sends every log line of this process to `stream` (standard error when None), at `level` and above.

    Libraries' lines are never shown below `info`: at `debug` some print what they carry.
    """
    sink = cast("TextIO", _PatientStream(stream or sys.stderr))
    number = logging.getLevelNamesMapping()[level.upper()]
    chain = [*_chain(service, clock or SystemClock()), _renderer(format, sink)]
    structlog.configure(
        processors=[structlog.processors.add_log_level, *chain],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(sink),
        cache_logger_on_first_use=False,
    )
    _route_standard_library(sink, max(number, logging.INFO), chain)


def get_logger(part: str) -> FilteringBoundLogger:
    """A logger for one part of a service; its lines name the part."""
    logger: FilteringBoundLogger = structlog.get_logger(part=part)
    return logger


@contextlib.contextmanager
def bound_ids(
    *,
    request_id: str | None = None,
    tenant: str | None = None,
    pool: str | None = None,
    attempt: str | None = None,
    boot: str | None = None,
    trace_id: str | None = None,
) -> Iterator[None]:
    """Adds these ids to every line logged inside, also by what is called or awaited there."""
    ids = {
        "request_id": request_id,
        "tenant": tenant,
        "pool": pool,
        "attempt": attempt,
        "boot": boot,
        "trace_id": trace_id,
    }
    with structlog.contextvars.bound_contextvars(
        **{name: value for name, value in ids.items() if value is not None}
    ):
        yield


class _PatientStream:
    """A stream whose reader may be gone: what can't be written is dropped, since nobody is left to tell."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()


def _chain(service: str, clock: Clock) -> list[Processor]:
    def stamp(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        at = datetime.fromtimestamp(clock.now().wall_ms / 1000, UTC)
        event["timestamp"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event.setdefault("service", service)
        return event

    return [structlog.contextvars.merge_contextvars, _add_trace_id, stamp, short_exception, refuse_payloads]


def _add_trace_id(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event.setdefault("trace_id", trace.format_trace_id(context.trace_id))
    return event


def _renderer(format: Format, sink: TextIO) -> Processor:  # noqa: A002
    if format == "console":
        return structlog.dev.ConsoleRenderer(
            colors=sink.isatty(), exception_formatter=structlog.dev.plain_traceback, event_key="event"
        )
    return _as_json


def _as_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    try:
        return orjson.dumps(event).decode()
    except TypeError:  # lone surrogates, integers beyond 64 bits: a line that reads badly beats a crash
        plain = {
            str(key): str(value).encode("utf-8", "backslashreplace").decode() for key, value in event.items()
        }
        return orjson.dumps(plain).decode()


def _route_standard_library(sink: TextIO, level: int, chain: list[Processor]) -> None:
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_log_level, _add_part],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *chain],
    )
    handler = logging.StreamHandler(sink)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)


def _add_part(_logger: Any, _method: str, event: EventDict) -> EventDict:  # noqa: ANN401 structlog's signature
    record: logging.LogRecord = event["_record"]
    event["part"] = record.name
    return event
