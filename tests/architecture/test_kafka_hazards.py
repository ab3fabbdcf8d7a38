"""Every hazard has a row, every row a test or a reason, and every test named there is one that runs."""

import subprocess
import sys
from pathlib import Path

from tests.support.named_tests import DOCUMENT, ROOT, Outcomes, named_in, rows_in, uncollected, unproved

HAZARDS = 84
EXAMPLE = """
| # | hazard | here | tests |
|---|---|---|---|
| 1 | one | shown | `tests/a.py::test_one` `tests/a.py::test_two` |
| 2 | two | no such path here: none | |
| 3 | three | hoped for | |
"""


def collected_from(files: set[str]) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header", *sorted(files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_every_hazard_has_a_row_with_a_test_or_a_reason() -> None:
    text = DOCUMENT.read_text()
    assert sorted(rows_in(text)) == list(range(1, HAZARDS + 1))
    assert unproved(text) == []


def test_every_test_that_is_named_is_collected() -> None:
    named = named_in(DOCUMENT.read_text())
    assert len(named) > 50, "the way tests are named has changed"
    files = {name.partition("::")[0] for name in named}
    assert uncollected(named, collected_from(files)) == set()


def test_a_row_without_a_test_or_a_reason_is_noticed() -> None:
    assert unproved(EXAMPLE) == [3]
    assert named_in(EXAMPLE) == {"tests/a.py::test_one", "tests/a.py::test_two"}
    assert uncollected(named_in(EXAMPLE), ["tests/a.py::test_one[kafka]"]) == {"tests/a.py::test_two"}


def test_a_named_test_that_is_skipped_or_expected_to_fail_is_noticed() -> None:
    outcomes = Outcomes({"tests/a.py::test_one", "tests/a.py::test_two", "tests/a.py::test_three"})
    outcomes.reported("tests/a.py::test_one[kafka]", skipped=True, expected_to_fail=False)
    outcomes.reported("tests/a.py::test_two", skipped=False, expected_to_fail=True)
    outcomes.reported("tests/a.py::test_three", skipped=False, expected_to_fail=False)
    outcomes.reported("tests/a.py::test_other", skipped=True, expected_to_fail=False)
    assert outcomes.unmet == {"tests/a.py::test_one", "tests/a.py::test_two"}


def test_a_run_in_which_a_named_test_is_skipped_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\n\ndef test_one():\n    pytest.skip('no')\n")
    (tmp_path / "conftest.py").write_text(
        "from tests.support.named_tests import Outcomes\n"
        "from tests.conftest import *\n"
        "import tests.conftest\n"
        "tests.conftest.OUTCOMES = Outcomes({'test_it.py::test_one'})\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    done = subprocess.run(
        [*command, str(tmp_path / "test_it.py")],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "a hazard's test was skipped" in done.stdout
