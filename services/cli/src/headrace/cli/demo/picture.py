"""The demo's screen: one table of what runs and just ended, and a bar for each tenant. Called by the demo's run.

Reads the board, changes nothing. Invariant: what it draws is never higher than the terminal.
"""

from rich import box
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
FRAME_LINES = 6
"""Lines that are neither rows nor bars: the headline, the table's head, and room for the cursor."""
BAR = 30


def picture(board: Board, now_ms: int, height: int, headline: str) -> RenderableType:
    """The whole screen, for a terminal of `height` lines."""
    room = max(height - FRAME_LINES - len(board.weights), 3)
    return Group(_headline(board, now_ms, headline), _table(board, now_ms, room), *map(bar, shares(board)))


def _headline(board: Board, now_ms: int, headline: str) -> Text:
    return Text.assemble(
        (headline, "bold"),
        f"   accepted {board.accepted_count} of {len(board.rows)}   ",
        (f"answered {board.answered_count}", "green"),
        f"   {now_ms / 1000:.0f} s",
        no_wrap=True,
    )


def _table(board: Board, now_ms: int, room: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True, show_edge=False)
    for name, width in (("tenant", 6), ("tier", 11), ("how", 6), ("state", 9)):
        table.add_column(name, width=width, no_wrap=True)
    for name in ("wait", "tokens"):
        table.add_column(name, width=7, justify="right", no_wrap=True)
    table.add_column("answer", ratio=1, no_wrap=True, overflow="ellipsis")
    for row in board.visible(room):
        table.add_row(*_cells(row, now_ms))
    return table


def _cells(row: Row, now_ms: int) -> tuple[str | Text, ...]:
    return (
        row.ask.tenant,
        row.ask.tier,
        row.ask.how,
        Text(row.state, style=COLOURS[row.state]),
        seconds(row.waited_ms(now_ms)),
        str(row.tokens or ""),
        _answer(row),
    )


def _answer(row: Row) -> Text:
    """While it grows, its end; when it is whole, its beginning."""
    if row.state is State.FAILED:
        return Text(row.problem, style="red")
    words = Text(f"{row.ask.prompt} ", style="dim")
    words.append(" ".join(row.text.split()), style="default")
    return words


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
