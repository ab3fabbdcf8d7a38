"""The demo for people: one screen of preflight, one live table, one summary. An Audience; chosen in a terminal."""

import sys

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from headrace.cli.curl import chat_line, client_lines
from headrace.cli.demo.board import Board, Row
from headrace.cli.demo.picture import bar, picture, seconds
from headrace.cli.demo.play import Ended, Ready
from headrace.cli.demo.prompts import MODEL, TIERS, WEIGHTS
from headrace.cli.demo.score import first_tokens, shares, waits
from headrace.devkit.preflight import Finding

HEADLINE = f"{len(WEIGHTS)} tenants, {len(TIERS)} tiers"

MOST_PROBLEMS = 5
LABELS = 16
"""Columns before a finding's detail."""


class Screen:
    """Draws on the terminal of standard output. `close` leaves it as it was, whatever was being drawn."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._bars = Progress(
            TextColumn("  downloading {task.description}"),
            BarColumn(),
            DownloadColumn(),
            console=self._console,
        )
        self._task = self._bars.add_task("Kafka", total=None)
        self._status: Status | None = None
        self._live: Live | None = None

    def preflight(self, findings: list[Finding]) -> None:
        """What this machine has and lacks, with the line that mends it."""
        table = Table(box=None, pad_edge=False, show_header=False)
        for one in findings:
            mark = "[green]found[/]" if one.ok else "[red]missing[/]"
            detail = _fitted(one.detail, self._console.width) if one.ok else f"{one.detail}: {one.remedy}"
            table.add_row(mark, f"[bold]{one.name}[/]", Text(detail))
        self._console.print(
            "headrace demo: a real Kafka, a real model, all services, on this machine\n", style="bold"
        )
        self._console.print(table)

    def downloading(self, file_name: str, done: int, total: int) -> None:
        """A bar over all files."""
        self._rest()
        self._bars.start()
        self._bars.update(self._task, description=file_name, completed=done, total=total)
        if done >= total:
            self._bars.stop()

    def starting(self, what: str) -> None:
        """A line that turns until the next thing."""
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(f"starting {what} …")

    def ready(self, ready: Ready) -> None:
        """The live table begins."""
        self._rest()
        self._console.print(f"\nall up after {ready.took.total_seconds():.1f} s, at {ready.url}\n")
        self._live = Live(console=self._console, auto_refresh=False, screen=True)
        self._live.start()

    def happened(self, kind: str, row: Row) -> None:
        """Nothing: the next frame shows it."""

    def frame(self, board: Board, now_ms: int) -> None:
        """Draws the table."""
        if self._live is not None:
            drawn = picture(board, now_ms, self._console.height, HEADLINE, self._console.width)
            self._live.update(drawn, refresh=True)

    def summary(self, board: Board, ready: Ready, ended: Ended) -> None:
        """What it came to, and the lines to paste."""
        self.close()
        for row in board.rows.values():
            self._console.print(_spoken(row), no_wrap=True, overflow="ellipsis")
        self._console.print()
        equal = "=" if board.accepted_count == board.answered_count else "but"
        style = "bold green" if ended.good else "bold red"
        self._console.print(
            f"accepted {board.accepted_count} {equal} answered {board.answered_count}"
            + (", each exactly once" if ended.good else ""),
            style=style,
        )
        for problem in ended.problems[:MOST_PROBLEMS]:
            self._console.print(problem, style="red", markup=False)
        if (more := len(ended.problems) - MOST_PROBLEMS) > 0:
            self._console.print(f"and {more} more", style="red")
        self._numbers(board, ended)
        self._lines(ready)

    def _numbers(self, board: Board, ended: Ended) -> None:
        if ended.first_answer is not None:
            self._console.print(
                f"first answer {ended.first_answer.total_seconds():.1f} s after the start of the demo"
            )
        table = Table(box=None, pad_edge=False)
        for name in ("tier", "answers", "queue wait p50", "queue wait p95", "time to first token p50"):
            table.add_column(name, justify="left" if name == "tier" else "right")
        firsts = first_tokens(board)
        for tier in waits(board):
            table.add_row(
                tier.tier,
                str(tier.count),
                seconds(tier.p50_ms),
                seconds(tier.p95_ms),
                seconds(firsts.get(tier.tier)),
            )
        self._console.print(table)
        for share in shares(board):
            self._console.print(bar(share))

    def _lines(self, ready: Ready) -> None:
        """Written as they are: a wrapped line could not be pasted."""
        sys.stdout.write(
            f"\nAsk it something yourself:\n{chat_line(ready.url, ready.key, MODEL)}\n\nOr in Python:\n"
        )
        sys.stdout.write("\n".join(client_lines(ready.url, ready.key, MODEL)))
        sys.stdout.write("\n\nEverything stays up until Ctrl-C.\n")
        sys.stdout.flush()

    def stopping(self) -> None:
        """Ctrl-C was pressed."""
        self.close()
        sys.stdout.write("\nstopping everything …\n")
        sys.stdout.flush()

    def close(self) -> None:
        """Ends whatever is being drawn. Twice is no error."""
        self._rest()
        self._bars.stop()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _rest(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def _fitted(detail: str, width: int) -> str:
    """A long path by its end, which says more than its beginning."""
    room = width - LABELS
    return detail if len(detail) <= room else "…" + detail[1 - room :]


def _spoken(row: Row) -> Text:
    """One line: who asked by which door, and what was answered."""
    ask = row.ask
    line = Text(f"{ask.tenant:<6} {ask.tier:<11} {ask.how:<6} ", style="dim")
    return line.append(" ".join((row.text or row.problem).split()), style="not dim")
