"""How the commands `python -m tests.…` take their words. Used by each of them.

Invariant: --help says what the command is for and does nothing; a word that it doesn't take ends it with status 2.
"""

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Collection
from importlib.machinery import ModuleSpec
from textwrap import fill

_WIDTH = 80


def parser_of(spec: ModuleSpec | None, doc: str | None) -> ArgumentParser:
    """For the module of this `__spec__` and `__doc__`, whose indented lines the usage says better."""
    paragraphs = [each for each in (doc or "").split("\n\n") if not each.startswith(" ")]
    return ArgumentParser(
        prog=None if spec is None else f"python -m {spec.name.removesuffix('.__main__')}",
        description="\n\n".join(fill(" ".join(each.split()), _WIDTH) for each in paragraphs),
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, width=_WIDTH),
    )


def count_of(parser: ArgumentParser, name: str, default: int, what: str) -> int:
    """The one word that a command takes: how many. Ends the process where it gets another."""
    parser.add_argument(
        name, type=_positive, nargs="?", default=default, help=f"{what} (default: %(default)s)"
    )
    return int(getattr(parser.parse_args(), name))


def one_of(known: Collection[str]) -> Callable[[str], str]:
    """The type of a word that is one of these."""

    def named(word: str) -> str:
        if word not in known:
            raise ArgumentTypeError(f"there is no {word}, only {', '.join(known)}")
        return word

    return named


def _positive(word: str) -> int:
    if not word.isdecimal() or int(word) == 0:
        raise ArgumentTypeError(f"{word} is no number from 1 on")
    return int(word)
