"""What commands print: tables for people, JSON for programs. Called by every command.

Invariant: with `--json`, standard output carries JSON and nothing else; with a pipe, people's output has no colours.
"""

import sys
from collections.abc import Collection, Iterable, Sequence
from textwrap import wrap

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

WIDE = 240
"""Columns of a table in a pipe."""
ROOMY = 150
"""Columns of a terminal that has room for every column of a table."""

_APART = 3
_LEAST = 20
"""Columns of a cell that is broken into lines."""


def console() -> Console:
    """The terminal on standard output."""
    return Console(highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """One line for people, as it is."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def warn(text: str) -> None:
    """One line for people that belongs to no output: what is probably not meant, but is done all the same."""
    sys.stderr.write(f"headrace: {text}\n")


def say_json(value: object) -> None:
    """One line of JSON for programs, flushed, so that a reader of a pipe gets it at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def show_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, dispensable: Collection[str] = ()
) -> None:
    """A table that takes the terminal's width, without its dispensable columns where that is small; in a pipe it is as wide
    as its content. The first column is never cut: it is what people copy. Where it leaves the others no room, they stand
    below it.
    """
    to_terminal = sys.stdout.isatty()
    screen = console() if to_terminal else Console(highlight=False, width=WIDE)
    left_out = dispensable if screen.width < ROOMY else ()
    places = [place for place, name in enumerate(columns) if name not in left_out]
    shown = [[columns[place] for place in places], *([row[place] for place in places] for row in rows)]
    if to_terminal and leaves_no_room(shown, screen.width):
        say("\n".join(stacked(shown, screen.width)))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(shown[0]):
        table.add_column(name, no_wrap=place == 0)
    for row in shown[1:]:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    table.columns[0].min_width = max(
        (len(plain) for plain in table.columns[0].cells if isinstance(plain, str)), default=0
    )
    if to_terminal:
        screen.print(table, soft_wrap=False)
        return
    with screen.capture() as drawn:
        screen.print(table)
    say("\n".join(line.rstrip() for line in drawn.get().strip("\n").splitlines()))


def leaves_no_room(shown: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the table is wider than a screen of which its first column alone takes more than half; or more than a third,
    where the others would have less than half of the room that they need.
    """
    first, *others = _widths(shown)
    room, need = width - first, sum(others) + _APART * (1 + len(others))
    return need > room and (2 * first > width or (3 * first > width and need > 2 * room))


def stacked(shown: Sequence[Sequence[str]], width: int = WIDE) -> list[str]:
    """Two lines a row: its first cell, and the others below it, each under its heading; more where the last one is long."""
    *widths, _ = _widths(shown)[1:]
    lines = []
    for first, *others, last in shown:
        padded = (cell.ljust(wide) for cell, wide in zip(others, widths, strict=True))
        beside = "  " + "".join(cell + " " * _APART for cell in padded)
        begin, *more = wrap(last, max(_LEAST, width - len(beside))) or [""]
        lines += [first, (beside + begin).rstrip(), *(" " * len(beside) + line for line in more)]
    return lines


def _widths(shown: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*shown, strict=True)]
