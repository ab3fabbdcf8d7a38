"""docs/rules.md leads from each rule to its file: every decision of a service is there once, with files that do ask it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAP = ROOT / "docs" / "rules.md"
ROW = re.compile(r"^\| [^|]+ \| `(decisions/\w+\.py)` \| ([^|]+) \|$", re.MULTILINE)


def rows_of(service: str, text: str) -> list[tuple[str, list[str]]]:
    """Each decision in the service's part of the map, and the files that are said to ask it."""
    part = next((part for part in text.split("\n## ") if part.startswith(f"{service}\n")), "")
    return [(decision, re.findall(r"`([\w/]+\.py)`", asked)) for decision, asked in ROW.findall(part)]


def wrong(package: Path, rows: list[tuple[str, list[str]]]) -> Iterator[str]:
    told = [decision for decision, _ in rows]
    there = {f"decisions/{path.name}" for path in (package / "decisions").glob("*.py")} - {
        "decisions/__init__.py"
    }
    yield from (f"{each} isn't in the map" for each in sorted(there - set(told)))
    yield from (f"{each} isn't there" for each in sorted(set(told) - there))
    yield from (f"{each} is there twice" for each in sorted(set(told)) if told.count(each) > 1)
    for decision, askers in rows:
        name = decision.removeprefix("decisions/").removesuffix(".py")
        imports = re.compile(rf"^from \S+\.decisions(\.{name} import| import .*\b{name}\b)", re.MULTILINE)
        for asker in askers:
            source = package / asker
            if not source.exists() or not imports.search(source.read_text()):
                yield f"{asker} doesn't ask {decision}"


def packages() -> list[Path]:
    return sorted(path.parent for path in ROOT.glob("services/*/src/headrace/*/decisions"))


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.name)
def test_the_map_leads_from_each_rule_to_its_file_and_to_who_asks(package: Path) -> None:
    rows = rows_of(package.parents[2].name, MAP.read_text())
    assert list(wrong(package, rows)) == []


def test_the_map_has_every_file_of_the_schedulers_core() -> None:
    core = ROOT / "services/scheduler/src/headrace/scheduler/core"
    there = {f"core/{path.name}" for path in core.glob("*.py")} - {"core/__init__.py"}
    assert there - set(re.findall(r"`(core/\w+\.py)`", MAP.read_text())) == set()


def test_what_is_missing_gone_told_twice_or_not_asked_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    for name in ("__init__", "may_it", "is_it", "was_it"):
        (tmp_path / "decisions" / f"{name}.py").touch()
    (tmp_path / "asking.py").write_text("from headrace.some.decisions.may_it import may_it\n")
    rows = rows_of(
        "some",
        "# Rules\n## some\n| question | decided in | asked by |\n|---|---|---|\n"
        "| may it | `decisions/may_it.py` | `asking.py` |\n| may it | `decisions/may_it.py` | `asking.py` |\n"
        "| is it | `decisions/is_it.py` | `asking.py` |\n| has it | `decisions/has_it.py` | `gone.py` |\n",
    )
    assert list(wrong(tmp_path, rows)) == [
        "decisions/was_it.py isn't in the map",
        "decisions/has_it.py isn't there",
        "decisions/may_it.py is there twice",
        "asking.py doesn't ask decisions/is_it.py",
        "gone.py doesn't ask decisions/has_it.py",
    ]
