"""The demo's screen: one table of what runs and just ended, and a bar for each tenant. Called by the demo's run.

Reads the board, changes nothing. Invariant: what it draws is never higher than the terminal.
"""

from typing import Literal

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headrace.cli.demo.board import Board, Row, State
from headrace.cli.demo.score import Share, shares

COLOURS = {
    State.PLANNED: "dim",
    State.SENT: "dim",
    State.QUEUED: "yellow",
    State.RUNNING: "cyan",
    State.SUCCEEDED: "green",
    State.FAILED: "red",
}
WORDS = {State.SENT: "waiting", State.QUEUED: "waiting"}
"""A caller on an open connection can't tell kept from queued, so the screen doesn't either."""
FRAME_LINES = 5
"""Lines that are neither rows nor bars: the headline, the table's head, a blank one, and room for the cursor."""
FIXED = (("tenant", 6), ("tier", 11), ("how", 6), ("state", 9), ("wait", 7), ("tokens", 6))
"""Columns that have the same width on every terminal; the answer gets the rest."""
ROOMY = 60
"""Columns of an answer that leave room for its question."""
BAR = 30


def picture(board: Board, now_ms: int, height: int, headline: str, width: int = 80) -> RenderableType:
    """The whole screen, for a terminal of `height` lines and `width` columns."""
    room = max(height - FRAME_LINES - len(board.weights), 3)
    answer = max(width - sum(size + 1 for _, size in FIXED), 10)
    return Group(
        _headline(board, now_ms, headline), _table(board, now_ms, room, answer), "", *map(bar, shares(board))
    )


def _headline(board: Board, now_ms: int, headline: str) -> Text:
    states = [row.state for row in board.rows.values()]
    running, waiting = states.count(State.RUNNING), sum(state in WORDS for state in states)
    return Text.assemble(
        (headline, "bold"),
        (f"   answered {board.answered_count} of {len(board.rows)}", COLOURS[State.SUCCEEDED]),
        (f"   running {running}", COLOURS[State.RUNNING]),
        (f"   waiting {waiting}", COLOURS[State.QUEUED]),
        f"   {now_ms / 1000:.0f} s",
        no_wrap=True,
    )


def _table(board: Board, now_ms: int, room: int, answer: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, expand=True, show_edge=False)
    for name, size in FIXED:
        justify: Literal["left", "right"] = "right" if name in ("wait", "tokens") else "left"
        table.add_column(name, width=size, justify=justify, no_wrap=True)
    table.add_column("answer", ratio=1, no_wrap=True, overflow="ellipsis")
    for row in board.visible(room):
        table.add_row(*_cells(row, now_ms, answer))
    return table


def _cells(row: Row, now_ms: int, answer: int) -> tuple[str | Text, ...]:
    return (
        row.ask.tenant,
        row.ask.tier,
        row.ask.how,
        Text(WORDS.get(row.state, row.state), style=COLOURS[row.state]),
        seconds(row.waited_ms(now_ms)),
        str(row.tokens or ""),
        _answer(row, answer),
    )


def _answer(row: Row, room: int) -> Text:
    """While it grows, its end; when it is whole, its beginning; before either, and where there is room, the question."""
    if row.state is State.FAILED:
        return Text(row.problem, style="red")
    said = " ".join(row.text.split())
    words = Text(f"{row.ask.prompt} " if room >= ROOMY or not said else "", style="dim")
    left = room - cell_len(words.plain)
    if row.state is State.RUNNING and cell_len(said) > left:
        said = "…" + set_cell_size(said[::-1], left - 1)[::-1]
    return words.append(said, style="not dim")


def bar(share: Share) -> Text:
    """A tenant's share of the tokens as a bar, with a mark where its weight says that it should end."""
    filled, due = round(share.got * BAR), min(round(share.due * BAR), BAR - 1)
    marks = ["█" if place < filled else "░" for place in range(BAR)]
    text = Text(f"{share.tenant:<8}", no_wrap=True)
    text.append("".join(marks[:due]), style="cyan").append("┃", style="bold").append(
        "".join(marks[due + 1 :]), style="cyan"
    )
    return text.append(f" {share.got:4.0%} of the tokens; its weight says {share.due:.0%}")


def seconds(duration_ms: int | None) -> str:
    """A wait as people read it."""
    return "" if duration_ms is None else f"{duration_ms / 1000:.1f} s"
