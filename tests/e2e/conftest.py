"""A fake engine and all services as processes, one of each for a module's tests."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.stacks import running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stack")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[EngineProcess]:
    with EngineProcess("--journal", str(folder / "journal.jsonl"), log_path=folder / "engine.log") as engine:
        yield engine


@pytest.fixture(scope="module")
def stack(kafka: str, engine: EngineProcess, folder: Path) -> Iterator[Stack]:
    with running(folder, kafka, topic_prefix(), [Backend("main", engine.url, "vllm", 8)]) as stack:
        yield stack


class Journaled(msgspec.Struct):
    """An exchange as the fake engine wrote it into its journal."""

    path: str
    headers: list[tuple[str, str]]
    request: bytes
    status: int
    response: bytes
    ended: str


@pytest.fixture(scope="module")
def journal(folder: Path) -> "Journal":
    return Journal(folder / "journal.jsonl")


class Journal:
    """What the engine received and answered, byte for byte."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def with_text(self, text: str) -> list[Journaled]:
        """Calls whose body contains `text`; health probes have none."""
        lines = self.path.read_bytes().splitlines()
        exchanges = [msgspec.json.decode(line, type=Journaled) for line in lines]
        return [one for one in exchanges if text.encode() in one.request]
