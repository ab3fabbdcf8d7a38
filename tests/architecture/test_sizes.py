"""Modules stay under 300 lines and functions under 41: someone who opens a file knows in ten lines what it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MODULE, LONGEST_FUNCTION = 300, 40


def too_long(source: str, name: str) -> Iterator[str]:
    lines = source.count("\n")
    if lines > LONGEST_MODULE:
        yield f"{name}: {lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{name}:{node.lineno} {node.name}: {length} lines"


def test_no_module_and_no_function_is_too_long() -> None:
    sources = [path for part in ("libs", "services") for path in (ROOT / part).rglob("*.py")]
    found = [line for path in sources for line in too_long(path.read_text(), str(path.relative_to(ROOT)))]
    assert found == []


def test_a_long_module_and_a_long_function_are_noticed() -> None:
    body = "def answer() -> None:\n" + "    pass\n" * 40
    assert list(too_long(body, "planted.py")) == ["planted.py:1 answer: 41 lines"]
    assert list(too_long("\n" * 301, "planted.py")) == ["planted.py: 301 lines"]
