"""Tests that a document names are collected, and neither skipped nor expected to fail. Called by tests/conftest.py and the
architecture tests; the document is docs/kafka-hazards.md.

Invariant: a name without parameters stands for each of its parametrised tests.
"""

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/kafka-hazards.md"
NAME = re.compile(r"`(tests/[\w/]+\.py::\w+)`")
ROW = re.compile(r"^\| (\d+) \|(.*)\|(.*)\|(.*)\|$", re.MULTILINE)
NO_PATH = "no such path here"


def rows_in(text: str) -> dict[int, tuple[str, list[str]]]:
    """Each hazard's number -> what is said of it, and the tests named for it."""
    return {int(number): (here, NAME.findall(tests)) for number, _, here, tests in ROW.findall(text)}


def unproved(text: str) -> list[int]:
    """The hazards that name no test although headrace could meet them."""
    return [number for number, (here, tests) in rows_in(text).items() if not tests and NO_PATH not in here]


def named_in(text: str) -> set[str]:
    """All tests that the rows name."""
    return {name for _, tests in rows_in(text).values() for name in tests}


def plain(node_id: str) -> str:
    """A test's name without its parameters."""
    return node_id.partition("[")[0]


def uncollected(named: Iterable[str], collected: Iterable[str]) -> set[str]:
    """Those named that were not collected."""
    return set(named) - {plain(node_id) for node_id in collected}


class Outcomes:
    """What became of the named tests in a run; a pytest plugin's memory."""

    def __init__(self, named: Iterable[str]) -> None:
        self._named = set(named)
        self.unmet: set[str] = set()
        """Names of those that were skipped, or failed as expected."""

    def reported(self, node_id: str, *, skipped: bool, expected_to_fail: bool) -> None:
        """One phase of one test has ended."""
        if (skipped or expected_to_fail) and plain(node_id) in self._named:
            self.unmet.add(plain(node_id))
