"""What commands print: tables for people, JSON for programs. Called by every command.

Invariant: with `--json`, standard output carries JSON and nothing else; with a pipe, people's output has no colours.
"""

import sys
from collections.abc import Iterable, Sequence

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

WIDE = 240
"""Columns of a table in a pipe."""


def console() -> Console:
    """The terminal on standard output."""
    return Console(highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """One line for people, as it is."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_json(value: object) -> None:
    """One line of JSON for programs, flushed, so that a reader of a pipe gets it at once."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """A table that takes the terminal's width; in a pipe it is as wide as its content."""
    table = Table(*columns, title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    if sys.stdout.isatty():
        console().print(table, soft_wrap=False)
        return
    wide = Console(highlight=False, width=WIDE)
    with wide.capture() as drawn:
        wide.print(table)
    say("\n".join(line.rstrip() for line in drawn.get().strip("\n").splitlines()))
