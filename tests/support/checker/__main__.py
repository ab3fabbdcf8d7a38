"""`python -m tests.support.checker FILE`: judges a saved history; exit status 1 when a promise was broken."""

import sys
from argparse import ArgumentParser
from pathlib import Path

from tests.support.checker.history import load
from tests.support.checker.judging import coverage, judge, told


def main() -> int:
    """The command line."""
    parser = ArgumentParser("python -m tests.support.checker", description="Judges a saved history.")
    parser.add_argument("file", type=Path, help="a history.jsonl of a drill")
    history = load(parser.parse_args().file)
    print(", ".join(f"{count} {name}" for name, count in coverage(history).items()))  # noqa: T201
    violations = judge(history)
    for line in told(violations):
        print(line)  # noqa: T201
    print("VIOLATED" if violations else "held")  # noqa: T201
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
