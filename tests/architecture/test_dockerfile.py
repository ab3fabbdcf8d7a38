"""Dockerfile as far as text tells: pinned, without secrets, not as root, made of what is there. No engine runs here."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import ROOT, SECRET, instructions, stages


def faults_in_dockerfile(text: str, root: Path = ROOT) -> Iterator[str]:
    made = stages(text)
    for word, rest in instructions(text):
        if (
            word == "FROM"
            and rest.split(" AS ")[0] not in made
            and not re.search(r":\d+\.\d+\S*", rest.split()[0])
        ):
            yield f"{rest}: no version of the image it is made from"
        if word in ("ENV", "ARG") and SECRET.search(rest.split("=")[0]):
            yield f"{word} {rest.split('=')[0]}: a secret in an image"
        if word == "COPY":
            yield from _missing_sources(rest, made, root)
        if (
            word == "RUN"
            and "install" in rest
            and "pip" in rest
            and not {"--require-hashes", "--no-index"} & {*rest.split()}
        ):
            yield f"RUN {rest}: packages without hashes"
    for target in ("run", "demo"):
        users = [rest for word, rest in made[target] if word == "USER"]
        if not users or users[-1].split(":")[0] in ("root", "0"):
            yield f"{target} runs as root"


def _missing_sources(rest: str, made: dict[str, Any], root: Path) -> Iterator[str]:
    words = shlex.split(rest)
    if words[0].startswith("--from="):
        if words[0].removeprefix("--from=") not in made:
            yield f"COPY {rest}: no such stage"
        return
    admitted = {
        line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    for source in words[:-1]:
        if not (root / source).exists() or source.split("/")[0] not in admitted:
            yield f"COPY {source}: not in what the build is given"


def test_the_dockerfile_has_no_fault() -> None:
    assert list(faults_in_dockerfile((ROOT / "Dockerfile").read_text())) == []


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("FROM python:3.11-slim-bookworm AS ground", "FROM python:latest AS ground", "no version"),
        ("FROM python:3.11-slim-bookworm AS ground", "FROM python AS ground", "no version"),
        ("USER 10001\n", "", "run runs as root"),
        ("COPY libs libs", "COPY tests tests", "COPY tests"),
        ("COPY libs libs", "COPY lib libs", "COPY lib"),
        ("--from=installed ", "--from=instaled ", "no such stage"),
        ("--require-hashes -r requirements/run.txt", "-r requirements/run.txt", "without hashes"),
        ("WORKDIR /src", "WORKDIR /src\nENV HEADRACE_INGEST_ID_KEY=00", "a secret in an image"),
    ],
)
def test_a_fault_in_the_dockerfile_is_noticed(before: str, after: str, fault: str) -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert before in text
    assert fault in "\n".join(faults_in_dockerfile(text.replace(before, after)))


def test_no_tool_that_builds_is_in_an_image_that_runs() -> None:
    assert not [rest for _, rest in stages((ROOT / "Dockerfile").read_text())["run"] if "build.txt" in rest]
