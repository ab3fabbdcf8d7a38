"""The checker imports nothing of the product: what both shared would be wrong in both alike."""

import ast
from pathlib import Path

CHECKER = Path(__file__).resolve().parents[2] / "support" / "checker"
OWN = "tests.support.checker"


def foreign(source: str) -> set[str]:
    """The modules of ours that a source imports, but for the checker's own."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {
        name for name in names if name.split(".")[0] in {"headrace", "tests"} and not name.startswith(OWN)
    }


def test_the_checker_imports_nothing_of_headrace() -> None:
    sources = list(CHECKER.glob("**/*.py"))
    assert len(sources) > 5
    assert {path.name: found for path in sources if (found := foreign(path.read_text()))} == {}


def test_an_import_of_the_product_or_of_other_support_is_noticed() -> None:
    assert foreign("import headrace.contracts.ids\nfrom tests.support.stacks import FAKE\n") == {
        "headrace.contracts.ids",
        "tests.support.stacks",
    }
