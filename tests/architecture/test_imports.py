"""The rules of imports hold, and each of them bites: a planted import is found by the rule that forbids it."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

VIOLATIONS = {
    "Imports go one way, and no service knows another": (
        "services/ingest/src/headrace/ingest/planted.py",
        "import headrace.scheduler.settings",
    ),
    "The scheduler's core asks its state, and both ask decisions": (
        "services/scheduler/src/headrace/scheduler/state/planted.py",
        "import headrace.scheduler.core.step",
    ),
    "Commands use the demo and the stack, and nothing uses commands": (
        "services/cli/src/headrace/cli/stack/planted.py",
        "import headrace.cli.commands.keys",
    ),
    "A decision reads no clock, rolls no dice, does no I/O": (
        "services/scheduler/src/headrace/scheduler/decisions/planted.py",
        "import random",
    ),
    "Only the bus speaks Kafka": (
        "services/ingest/src/headrace/ingest/planted_too.py",
        "import aiokafka",
    ),
}


def lint_imports(root: Path) -> str:
    folders = [str(path) for part in ("libs", "services") for path in root.glob(f"{part}/*/src")]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", root)
    for part in ("libs", "services"):
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    for path, line in VIOLATIONS.values():
        (root / path).write_text(f'"""Planted."""\n\n{line}\n')
    return lint_imports(root)


def test_each_rule_has_a_violation_here() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    assert {contract["name"] for contract in contracts} == set(VIOLATIONS)


@pytest.mark.parametrize("rule", VIOLATIONS)
def test_a_planted_import_breaks_its_rule(broken: str, rule: str) -> None:
    assert f"{rule} BROKEN" in broken


def test_the_tree_keeps_every_rule() -> None:
    assert "0 broken" in lint_imports(ROOT)
