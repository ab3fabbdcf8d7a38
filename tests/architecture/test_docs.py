"""What the documents name exists: paths, links, `make` targets, `headrace` commands, settings; and what exists is named."""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from headrace.cli.__main__ import application
from headrace.cli.service_packages import settings_class
from headrace.contracts.failures import FailureKind
from headrace.ingest.openapi import openapi
from headrace.runtime.settings import SERVICES
from headrace.runtime.settings_sources import CONFIG, env_names

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")])
FILES_WITH_SETTINGS = sorted(
    [
        *DOCUMENTS,
        ROOT / "Dockerfile",
        ROOT / "docker-compose.yml",
        *ROOT.glob("examples/*"),
        *ROOT.glob("helm/*"),
    ]
)
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
ROOTED = re.compile(
    r"(?<![\w./-])(?:services|libs|tests|docs|examples|schemas|helm|requirements|\.ci)/[\w./-]*"
)
MODULE = re.compile(r"(?:[\w-]+/)*[\w.-]+\.(?:py|toml|yml|md|sh)")
MAKE = re.compile(r"(?:^|[;&|] *)make ([a-z][\w-]*)", re.MULTILINE)
SETTING = re.compile(r"HEADRACE_[A-Z0-9]\w*")
SUBSTITUTED = re.compile(r"\$\{(HEADRACE_\w+)")
REFUSED = re.compile(r"Refusal\(\s*\d{3},\s*\"(\w+)\"")
READ_BY_CODE = re.compile(r"[\"'](HEADRACE_[A-Z_]+)[\"']")


def code_in(text: str) -> str:
    """All that is set as code, one piece a line."""
    fenced = FENCED.findall(text)
    return "\n".join([*fenced, *SPAN.findall(FENCED.sub("", text))])


def strange_paths(text: str) -> Iterator[str]:
    code, files = code_in(text), committed()
    for name in ROOTED.findall(code):
        if not (ROOT / name.rstrip(".")).exists():
            yield name
    for span in code.splitlines():
        if MODULE.fullmatch(span) and not any(f"/{file}".endswith(f"/{span}") for file in files):
            yield span


@cache
def committed() -> tuple[str, ...]:
    """Names of all files, but for those that git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    return tuple(
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    )


def broken_links(text: str, folder: Path) -> Iterator[str]:
    for target in LINK.findall(text):
        if re.match(r"https?://|mailto:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (folder / name).exists()  # an empty name is the folder itself
        if not there or (anchor and anchor not in anchors((folder / name).read_text() if name else text)):
            yield target


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(FENCED.sub("", text)))
    return {heading.replace(" ", "-") for heading in plain}


def strange_targets(text: str) -> Iterator[str]:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    yield from (target for target in MAKE.findall(code_in(text)) if target not in known)


def strange_commands(text: str) -> Iterator[str]:
    for line in code_in(text).splitlines():
        begun = re.match(r"(?:\$ )?(?:\.venv/bin/)?headrace ([^#|>&;…]*)", line)
        if begun and not is_command(begun[1]):
            yield line


def is_command(arguments: str) -> bool:
    """Whether the words up to the first that is no command lead to one, and every option is one of its options."""
    words, here = shlex.split(arguments.replace("'", "")), get_command(application())
    while words and isinstance(here, typer.core.TyperGroup):
        if words[0] not in here.commands:
            return words == ["--help"]
        here = here.commands[words.pop(0)]
    options = {name for option in here.params for name in option.opts} | {"--help"}
    return all(word.partition("=")[0] in options for word in words if word.startswith("--"))


def strange_settings(text: str) -> Iterator[str]:
    yield from (name for name in SETTING.findall(text) if name not in known_settings())


def known_settings() -> set[str]:
    return (
        {CONFIG}
        | {name for names in settings_of_services() for name in names}
        | read_by_code()
        | set(SUBSTITUTED.findall((ROOT / "docker-compose.yml").read_text()))
    )


def settings_of_services() -> list[tuple[str, ...]]:
    """Each setting's variables, the one to tell people about last."""
    classes = [settings_class(service) for service in SERVICES]
    return [env_names(cls, field) for cls in classes for field in cls.model_fields]


def read_by_code() -> set[str]:
    """Variables that aren't settings of a service: of the development tools, the command line, and tests."""
    sources = [*ROOT.glob("libs/devkit/src/**/*.py"), *ROOT.glob("services/cli/src/**/*.py")]
    return {name for path in sources for name in READ_BY_CODE.findall(path.read_text())}


CHECKS: dict[str, Callable[[str], Iterator[str]]] = {
    "paths": strange_paths,
    "targets": strange_targets,
    "commands": strange_commands,
    "settings": strange_settings,
}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_everything_a_document_names_exists(path: Path) -> None:
    text = path.read_text()
    found = {name: list(check(text)) for name, check in CHECKS.items()}
    found["links"] = list(broken_links(text, path.parent))
    assert {name: strange for name, strange in found.items() if strange} == {}


@pytest.mark.parametrize("path", FILES_WITH_SETTINGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_setting_named_is_one_that_something_reads(path: Path) -> None:
    assert list(strange_settings(path.read_text())) == []


def test_every_setting_is_in_the_configuration_document() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    assert sorted({names[-1] for names in settings_of_services() if f"`{names[-1]}`" not in text}) == []


def test_every_route_and_every_failure_is_in_the_document_of_the_api() -> None:
    text = (ROOT / "docs/api.md").read_text()
    kinds = [kind.value for kind in FailureKind if f"`{kind.value}`" not in text]
    paths = [path.replace("{request_id}", "{id}") for path in openapi()["paths"]]
    assert kinds + [path for path in paths if path not in text] == []


def test_every_code_of_a_refusal_is_in_the_document_of_the_api() -> None:
    text = (ROOT / "docs/api.md").read_text()
    sources = ROOT.glob("services/ingest/src/**/*.py")
    codes = {code for path in sources for code in REFUSED.findall(path.read_text())}
    assert len(codes) > 10, "the way refusals are written has changed"
    assert sorted(code for code in codes if f"`{code}`" not in text) == []


def test_the_first_picture_is_readable_in_100_columns() -> None:
    pictures = [block for block in FENCED.findall((ROOT / "README.md").read_text()) if "┌" in block]
    assert [line for block in pictures for line in block.splitlines() if len(line) > 100] == []
    assert pictures


PLANTED = """
# Some heading
Open `services/nowhere/src` and `decisions/pick_none.py`.
See [this](docs/none.md), [that](#no-heading), [fine](#some-heading).
Run `make nonsense`, `make test`, `headrace topics appply`, `headrace topics check --frobnicate`.
```sh
headrace dev upp   # a comment
HEADRACE_WORKER_POOL=small headrace run inference-worker
```
"""


def test_a_document_that_names_what_is_not_there_is_noticed() -> None:
    found = {name: list(check(PLANTED)) for name, check in CHECKS.items()}
    assert found == {
        "paths": ["services/nowhere/src", "decisions/pick_none.py"],
        "targets": ["nonsense"],
        "commands": [
            "headrace dev upp   # a comment",
            "headrace topics appply",
            "headrace topics check --frobnicate",
        ],
        "settings": ["HEADRACE_WORKER_POOL"],
    }
    assert list(broken_links(PLANTED, ROOT)) == ["docs/none.md", "#no-heading"]
