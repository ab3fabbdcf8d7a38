"""Every command below tests/ says what it is for, and runs nothing for a word that it doesn't know."""

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    for path in (ROOT / "tests").rglob("*.py")
    if '\nif __name__ == "__main__":\n' in path.read_text(encoding="utf-8")
)


def status_of(name: str, *words: str, patch: pytest.MonkeyPatch) -> object:
    """What `python -m NAME WORDS` ends with. It must read its words, or it would do all that it can right here."""
    source = ROOT.joinpath(*name.split("."))
    text = (source / "__main__.py" if source.is_dir() else source.with_suffix(".py")).read_text(
        encoding="utf-8"
    )
    assert "ArgumentParser(" in text or "parser_of(__spec__, __doc__)" in text
    patch.setattr(sys, "argv", [name, *words])
    patch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__", alter_sys=False)
    return ended.value.code


def test_there_are_commands() -> None:
    assert {"tests.compiled", "tests.simulation", "tests.support.drill"} < set(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_command_prints_its_usage_and_does_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(name, "--help", patch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: ")
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("name", ENTRIES)
def test_a_command_refuses_a_word_that_it_does_not_know(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(name, "--no-such-word", patch=monkeypatch) == 2
    assert ": error: " in capsys.readouterr().err
