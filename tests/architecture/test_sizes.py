"""Modules have 300 lines at most, tests too, and the product's functions 40: whoever opens a file soon knows what it is."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MODULE, LONGEST_FUNCTION = 300, 40


def too_long_module(source: str, name: str) -> Iterator[str]:
    lines = source.count("\n")
    if lines > LONGEST_MODULE:
        yield f"{name}: {lines} lines"


def too_long_functions(source: str, name: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{name}:{node.lineno} {node.name}: {length} lines"


def in_folders(rule: Callable[[str, str], Iterator[str]], *folders: str) -> list[str]:
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [line for path in sources for line in rule(path.read_text(), str(path.relative_to(ROOT)))]


def test_no_module_and_no_function_is_too_long() -> None:
    assert in_folders(too_long_module, "libs", "services", "tests") == []
    assert in_folders(too_long_functions, "libs", "services") == []


def test_a_long_module_and_a_long_function_are_noticed() -> None:
    body = "def answer() -> None:\n" + "    pass\n" * 40
    assert list(too_long_functions(body, "planted.py")) == ["planted.py:1 answer: 41 lines"]
    assert list(too_long_module("\n" * 301, "planted.py")) == ["planted.py: 301 lines"]
