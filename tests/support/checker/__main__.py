"""`python -m tests.support.checker FILE`: judges a saved history; exit status 1 when a promise was broken."""

import argparse
import sys
from pathlib import Path

from tests.support.checker.history import load
from tests.support.checker.judging import coverage, judge, told


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Judge a history of JSON lines.")
    parser.add_argument("file", type=Path)
    history = load(parser.parse_args().file)
    print(", ".join(f"{count} {name}" for name, count in coverage(history).items()))  # noqa: T201
    violations = judge(history)
    for line in told(violations):
        print(line)  # noqa: T201
    print("VIOLATED" if violations else "held")  # noqa: T201
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
