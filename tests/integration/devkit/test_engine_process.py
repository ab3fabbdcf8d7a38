"""The fake engine as a process of its own: it serves, dies as asked, comes back on its port, and is quick."""

import http.client
from pathlib import Path

import orjson
import pytest

from headrace.devkit.served import EngineProcess, ServerFailed


def post(engine: EngineProcess, text: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=10)
    body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": text}]})
    connection.request("POST", "/v1/chat/completions", body)
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_an_engine_process_dies_as_asked_and_comes_back_on_its_port(tmp_path: Path) -> None:
    with EngineProcess("--model", "m", "--journal", str(tmp_path / "journal")) as engine:
        assert post(engine, "hello") == 200
        with pytest.raises(http.client.RemoteDisconnected):
            post(engine, "[[fault:die]]")
        assert engine.child.wait() == 134
        engine.start()
        assert post(engine, "hello again") == 200
    assert len((tmp_path / "journal").read_bytes().splitlines()) == 2


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    engine = EngineProcess("--no-such-option", log_path=tmp_path / "log")
    with pytest.raises(ServerFailed, match="unrecognized arguments: --no-such-option"):
        engine.start()
