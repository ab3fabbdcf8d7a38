import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog

from headrace.runtime.clock import ManualClock
from headrace.runtime.log_safety import describe
from headrace.runtime.logging import Format, bound_ids, configure_logging, get_logger


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in stream.getvalue().splitlines()]


def fail_twice() -> None:
    try:
        int("x" * 5000)
    except ValueError as inner:
        raise RuntimeError("outer") from inner


def test_a_line_is_json_with_time_service_part_level_and_the_bound_ids(stream: io.StringIO) -> None:
    configure_logging("ingest", stream=stream, clock=ManualClock(wall_ms=1_700_000_000_123))
    with bound_ids(request_id="req_1", tenant="acme"):
        get_logger("door").info("accepted", partition=3)
    get_logger("door").debug("not shown")
    get_logger("door").info("outside")
    first, second = lines(stream)
    assert first == {
        "event": "accepted",
        "level": "info",
        "part": "door",
        "partition": 3,
        "request_id": "req_1",
        "service": "ingest",
        "tenant": "acme",
        "timestamp": "2023-11-14T22:13:20.123Z",
    }
    assert "request_id" not in second


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_could_be_a_prompt_is_replaced_by_its_size_at_any_depth(
    stream: io.StringIO, form: Format
) -> None:
    configure_logging("ingest", stream=stream, format=form)
    get_logger("door").warning(
        "odd",
        prompt="SECRET",
        Body=b"SECRET",
        messages=[{"role": "SECRET"}],
        value=object(),
        record={"header": {"content": "SECRET", "id": 7}, "many": [{"text": "SECRET"}]},
        raw=b"SECRET",
    )
    text = stream.getvalue()
    assert "SECRET" not in text
    assert "<6 characters>" in text
    assert "<6 bytes>" in text
    assert "<1 items>" in text


def test_an_exception_is_told_in_one_kibibyte_without_source_lines(stream: io.StringIO) -> None:
    configure_logging("ingest", stream=stream)
    try:
        fail_twice()
    except RuntimeError:
        get_logger("door").exception("failed")
    (line,) = lines(stream)
    assert len(line["exception"]) <= 1024
    assert line["exception"].startswith("RuntimeError: outer at runtime/test_logging.py:")
    assert "caused by ValueError: invalid literal" in line["exception"]
    assert "raise" not in line["exception"]


def test_the_first_of_a_group_of_exceptions_is_told() -> None:
    assert "KeyError: 'lane'" in describe(ExceptionGroup("two tasks", [KeyError("lane"), OSError()]))


def test_lines_of_libraries_take_the_same_way_but_never_below_info(stream: io.StringIO) -> None:
    configure_logging("worker", level="debug", stream=stream)
    logging.getLogger("alembic.runtime").debug("fetched %s", "SECRET")
    logging.getLogger("alembic.runtime").warning("lost %s", "x" * 3000)
    try:
        Path("/nowhere/at/all").read_bytes()
    except OSError:
        logging.getLogger("uvicorn.error").exception("failed")
    first, second = lines(stream)
    assert (first["part"], first["level"], first["service"]) == ("alembic.runtime", "warning", "worker")
    assert len(first["event"]) == 1024
    assert second["exception"].startswith("FileNotFoundError: ")


def test_what_json_cannot_hold_is_still_logged(stream: io.StringIO) -> None:
    configure_logging("ingest", stream=stream)
    get_logger("door").info("odd", name="\ud800", size=2**70, error=OSError("x"))
    (line,) = lines(stream)
    assert (line["name"], line["size"], line["error"]) == ("\\ud800", str(2**70), "x")


def test_a_broken_log_stream_stops_nothing(stream: io.StringIO) -> None:
    configure_logging("ingest", stream=stream)
    stream.close()
    get_logger("door").info("nobody reads this")
    logging.getLogger("uvicorn").warning("nor this")
