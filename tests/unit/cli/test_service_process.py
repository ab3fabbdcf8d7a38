"""One service of a stack: a start that fails tells why, and a restart is found at the same place."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.cli.stack.service import ServiceProcess, StackFailed
from headrace.devkit.ports import free_port

SHORT = timedelta(seconds=10)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[ServiceProcess]:
    port = free_port()
    argv = [
        sys.executable,
        "-m",
        "http.server",
        str(port),
        "--bind",
        "127.0.0.1",
        "--directory",
        str(tmp_path),
    ]
    (tmp_path / "readyz").write_text("ready")
    service = ServiceProcess("files", argv, env={}, log_path=tmp_path / "log", health_port=port)
    yield service
    if service.alive:
        service.kill()


def test_a_start_that_fails_tells_the_last_lines_of_its_log(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "print('the topic t.results is missing'); raise SystemExit(3)"]
    service = ServiceProcess("scheduler", argv, env={}, log_path=tmp_path / "log", health_port=free_port())
    service.launch()
    with pytest.raises(
        StackFailed, match=r"(?s)scheduler ended with status 3.*the topic t\.results is missing"
    ):
        service.await_ready(SHORT)


def test_a_killed_service_comes_back_at_the_same_place(engine: ServiceProcess) -> None:
    engine.restart(SHORT)
    assert engine.kill() == 137
    assert not engine.alive
    engine.restart(SHORT)
    assert (engine.alive, len(set(engine.pids))) == (True, 2)


def test_a_service_that_never_listens_is_not_ready(engine: ServiceProcess) -> None:
    engine._api_port = free_port()
    engine.launch()
    with pytest.raises(StackFailed, match="files was not ready within 1 s"):
        engine.await_ready(timedelta(seconds=1))
