"""The wheel, mypy and import-linter see every source folder, the namespace stays one, and tests share by tests/support."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OF_A_TEST = re.compile(r"^from tests\.\S+\.test_\w+ import .*", re.MULTILINE)


def source_folders(root: Path) -> set[str]:
    return {
        str(path.relative_to(root)) for part in ("libs", "services") for path in root.glob(f"{part}/*/src")
    }


def listed_folders(root: Path) -> dict[str, set[str]]:
    tool = tomllib.loads((root / "pyproject.toml").read_text())["tool"]
    wheel = tool["hatch"]["build"]["targets"]["wheel"]
    return {
        "hatch dev-mode-dirs": set(tool["hatch"]["build"]["dev-mode-dirs"]),
        "wheel only-include": set(wheel["only-include"]),
        "wheel sources": set(wheel["sources"]),
        "mypy_path": set(tool["mypy"]["mypy_path"]),
    }


def missing(root: Path) -> list[str]:
    """Which source folders a list lacks: mypy and import-linter would be green about code they never saw."""
    return [
        f"{folder} is missing from {name} in pyproject.toml"
        for name, listed in listed_folders(root).items()
        for folder in sorted(source_folders(root) - listed)
    ]


def hidden_portions(root: Path) -> list[Path]:
    """`headrace/__init__.py` in one source folder hides all other portions of the namespace."""
    return [path for folder in source_folders(root) for path in (root / folder).glob("headrace/__init__.py")]


def shared_by_a_test(source: str) -> list[str]:
    """What is taken from a module of tests: whoever moves a test there would break another."""
    return OF_A_TEST.findall(source)


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "libs/stray/src/headrace").mkdir(parents=True)
    return tmp_path


def test_every_source_folder_is_in_every_list() -> None:
    assert missing(ROOT) == []


def test_a_forgotten_source_folder_is_noticed(planted: Path) -> None:
    assert len(missing(planted)) == len(listed_folders(planted))


def test_no_portion_of_the_namespace_hides_the_others() -> None:
    assert hidden_portions(ROOT) == []


def test_a_stray_package_file_is_noticed(planted: Path) -> None:
    (planted / "libs/stray/src/headrace/__init__.py").touch()
    assert len(hidden_portions(planted)) == 1


def test_no_test_takes_from_another_what_both_need() -> None:
    sources = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__).resolve()]
    assert {path.name: found for path in sources if (found := shared_by_a_test(path.read_text()))} == {}


def test_what_a_test_takes_from_another_is_noticed() -> None:
    taken = "from tests.unit.scheduler.test_one import case"
    assert shared_by_a_test(f"import re\n{taken}\nfrom tests.support.one import two\n") == [taken]
