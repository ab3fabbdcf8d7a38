"""What is committed is small, pinned, and speaks of the project alone: no registry, no machine, no secret."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 256 * 1024
AT_THE_TOP = {
    ".dockerignore", ".gitignore", "CHANGELOG.md", "Dockerfile", "LICENSE", "Makefile", "README.md",
    "docker-compose.yml", "hatch_build.py", "pyproject.toml",
}  # fmt: skip
ADDRESS = re.compile(
    r"--(?:extra-)?index-url|--find-links|--trusted-host|https?://[^\s\"'<>]*(?:pypi|npmjs|maven|/simple)\b"
)
MACHINE = re.compile(r"(?<![\w.])/(?:root|work|home/\w+)/")
SECRET = re.compile(r"BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bsk-[A-Za-z0-9]{32,}")


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def offences(text: str) -> list[str]:
    return [match.group(0) for rule in (ADDRESS, MACHINE, SECRET) for match in rule.finditer(text)]


def test_nothing_committed_is_large() -> None:
    large = {
        str(path.relative_to(ROOT)): path.stat().st_size
        for path in committed()
        if path.stat().st_size > LARGEST
    }
    assert large == {}


def test_no_stray_file_lies_at_the_top() -> None:
    """What a command printed while somebody wrote of it, for one."""
    assert {path.name for path in committed() if path.parent == ROOT} <= AT_THE_TOP


def test_nothing_committed_names_a_registry_a_machine_or_a_secret() -> None:
    found = {
        str(path.relative_to(ROOT)): offence
        for path in committed()
        if path != Path(__file__).resolve() and (offence := offences(path.read_text(errors="ignore")))
    }
    assert found == {}


@pytest.mark.parametrize("name", ["run", "build", "dev", "model"])
def test_every_requirement_is_pinned_with_a_hash(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert lines
    assert [line for line in lines if "==" not in line or "--hash=sha256:" not in line] == []


def test_an_address_a_machine_path_and_a_secret_are_noticed() -> None:
    planted = "--index-url x\n" + "/" + "root/x\n" + "BEGIN " + "PRIVATE KEY"
    assert len(offences(planted)) == 3
