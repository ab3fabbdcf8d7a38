"""Tables on narrow terminals: what people copy stays whole, and what stands beside it stays readable."""

import re
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.terminal import leaves_no_room, show_table, stacked

ID = "req_agrdenijnryznjs5nov4hf7lieaaebddnbqxiblcmf2gg2guk5cyapy3esnxoma"
COLUMNS = ("request", "tenant", "tier", "model", "state", "age", "cost")
ROWS = [
    (ID, "crew", "batch", "chat-8b", "queued", "14s", "525"),
    (ID, "a", "standard", "m", "running", "1m", "3"),
]


@pytest.fixture
def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[int], list[str]]:
    """The lines of the table on a terminal of so many columns."""

    def run(columns: int) -> list[str]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))
        show_table(COLUMNS, ROWS, dispensable=("cost",))
        plain = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
        return [line for line in plain.splitlines() if line.strip()]

    return run


def test_columns_that_have_no_room_beside_a_long_first_one_stand_below_it(
    printed: Callable[[int], list[str]],
) -> None:
    assert printed(80) == [
        "request", "  tenant   tier       model     state     age",
        ID, "  crew     batch      chat-8b   queued    14s",
        ID, "  a        standard   m         running   1m",
    ]  # fmt: skip


def test_a_wide_terminal_has_a_line_for_each_row(
    printed: Callable[[int], list[str]],
) -> None:
    lines = printed(160)
    assert len(lines) == 4
    assert lines[2].split() == list(ROWS[0])


@given(
    st.lists(
        st.tuples(st.text("ab", max_size=90), st.text("cd", max_size=20), st.text("ef", max_size=9)),
        min_size=1,
    )
)
def test_nothing_is_lost_by_stacking(rows: list[tuple[str, str, str]]) -> None:
    lines = stacked(rows)
    assert [line.strip() for line in lines[::2]] == [row[0] for row in rows]
    assert [line.split() for line in lines[1::2]] == [[cell for cell in row[1:] if cell] for row in rows]


def test_a_long_last_cell_goes_on_below_itself() -> None:
    shown = [("variable", "value", "meaning"), ("HEADRACE_KAFKA" * 2, "127.0.0.1:9092", "host:port " * 6)]
    assert leaves_no_room(shown, 60)
    lines = stacked(shown, 60)
    assert lines[3:] == [
        "  127.0.0.1:9092   host:port host:port host:port host:port",
        "                   host:port host:port",
    ]


def test_a_table_is_stacked_only_for_its_first_column() -> None:
    assert leaves_no_room([ROWS[0]], 80)
    assert not leaves_no_room([ROWS[0]], 140)
    assert not leaves_no_room([("short", "x" * 200)], 80), "the long column wraps"
