"""schemas/ is what `headrace dev schemas` renders, and a file that differs is noticed."""

from pathlib import Path

import pytest
import typer

from headrace.cli.commands.schemas import rendered, schemas

ROOT = Path(__file__).resolve().parents[3]


def test_what_is_committed_is_what_the_code_says() -> None:
    stale = [name for name, text in rendered().items() if (ROOT / "schemas" / name).read_text() != text]
    assert stale == [], "`make schemas` renders them again"


def test_a_file_that_differs_is_noticed_and_then_rendered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schemas(tmp_path)
    (tmp_path / "openapi.json").write_text("{}")
    with pytest.raises(typer.Exit) as ended:
        schemas(tmp_path, check=True)
    assert ended.value.exit_code == 1
    assert "openapi.json" in capsys.readouterr().out
    schemas(tmp_path)
    schemas(tmp_path, check=True)
