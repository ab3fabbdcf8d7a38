"""Dockerfile and docker-compose.yml as data: what each image is made of, what each container runs. No engine needed.

Called by tests/architecture/test_containers.py, test_dockerfile.py and tests/e2e/test_compose_as_processes.py.
"""

import re
from pathlib import Path
from typing import Any, cast

import yaml

ROOT = Path(__file__).resolve().parents[2]
SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|_KEY$")
"""Names of variables whose values nobody writes down."""
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<text>[^}]*))?\}")


class MissingVariableError(Exception):
    """Compose would refuse to start; the message is what the file says."""


def compose_file(root: Path = ROOT) -> dict[str, Any]:
    """The whole document, its variables not yet replaced."""
    return cast("dict[str, Any]", yaml.safe_load((root / "docker-compose.yml").read_text()))


def interpolated(text: str, given: dict[str, str]) -> str:
    """A value with its ${…} replaced as compose does it. Raises MissingVariableError."""

    def value(found: re.Match[str]) -> str:
        if given.get(found["name"]):
            return given[found["name"]]
        if found["kind"] == "?":
            raise MissingVariableError(found["text"])
        return found["text"] or ""

    return VARIABLE.sub(value, text)


def environment_in(service: dict[str, Any], given: dict[str, str]) -> dict[str, str]:
    """What the processes of a container see of the file. Raises MissingVariableError."""
    return {name: interpolated(str(value), given) for name, value in service.get("environment", {}).items()}


def ours(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The containers that run our images."""
    return {name: one for name, one in document["services"].items() if "build" in one}


def instructions(text: str) -> list[tuple[str, str]]:
    """(INSTRUCTION, arguments), comments dropped and lines joined."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    return [
        (line.split()[0].upper(), line.split(maxsplit=1)[1]) for line in joined.splitlines() if line.strip()
    ]


def stages(text: str) -> dict[str, list[tuple[str, str]]]:
    """Each stage's instructions, those of the stage that it is made from first."""
    found: dict[str, list[tuple[str, str]]] = {}
    for word, rest in instructions(text):
        if word == "FROM":
            source, name = rest.split(" AS ")
            found[name] = list(found.get(source, []))
            current = found[name]
        current.append((word, rest))
    return found
