"""ruff and mypy bite: what they must refuse is planted, and they refuse it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent


def ruff_codes(source: str, name: str) -> str:
    done = subprocess.run(
        [str(TOOLS / "ruff"), "check", "--stdin-filename", name, "--output-format=concise", "-"],
        input=source,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("TID251", "from datetime import UTC, datetime\n\nAT = datetime.now(UTC)\n"),
        ("TID251", "import json\n\nTEXT = json.dumps({})\n"),
        ("ANN201", "def answer():\n    return 1\n"),
        ("T201", "print()\n"),
        ("BLE001", "try:\n    pass\nexcept Exception:\n    pass\n"),
    ],
)
def test_ruff_refuses_what_the_style_forbids(code: str, line: str) -> None:
    assert code in ruff_codes(line, "services/scheduler/src/headrace/scheduler/planted.py")


def test_mypy_refuses_an_untyped_call_across_portions_of_the_namespace(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(
        "from headrace.contracts.partitions import partition_of\n\nNUMBER: str = partition_of('a', 1)\n"
    )
    done = subprocess.run(
        [
            str(TOOLS / "mypy"), "--config-file", str(ROOT / "pyproject.toml"),
            "--cache-dir", str(tmp_path / "cache"), str(planted),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert "Incompatible types in assignment" in done.stdout
