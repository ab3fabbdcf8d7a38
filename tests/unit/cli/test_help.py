"""`--help` of every command: at 80 columns each list of commands has their summaries whole, a line each."""

from collections.abc import Iterator

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from headrace.cli.__main__ import application
from headrace.cli.commands import topics

COLUMNS = 80


def helps(app: typer.Typer) -> Iterator[tuple[str, str]]:
    """Each command with what it prints for --help."""
    yield from _helps(app, get_command(app), ())


def _helps(app: typer.Typer, command: object, words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    told = CliRunner(env={"COLUMNS": str(COLUMNS)}).invoke(app, [*words, "--help"])
    assert told.exit_code == 0, told.output
    yield " ".join(words), told.output
    for name, one in getattr(command, "commands", {}).items():
        yield from _helps(app, one, (*words, name))


def cut(text: str) -> list[str]:
    """Lines of the list of commands that are cut or go on below, and all lines that are too wide."""
    _, _, commands = text.partition("\nCommands:\n")
    listed = [line for line in commands.splitlines() if line.strip()]
    broken = [line for line in listed if line.endswith("...") or line.startswith("   ")]
    return broken + [line for line in text.splitlines() if len(line) > COLUMNS]


def test_no_list_of_commands_is_cut() -> None:
    found = dict(helps(application()))
    assert {"", "queue", "queue ls", "dev engine", "simulate"} <= set(found)
    assert {name: cut(text) for name, text in found.items() if cut(text)} == {}


def test_a_summary_that_is_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics.check, "__doc__", "Say " + "how " * 20 + "they differ.")
    assert "topics" in {name for name, text in helps(application()) if cut(text)}
