"""The demo's board: what happened, as rows, shares and percentiles."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headrace.cli.demo.board import Ask, Board, How, State
from headrace.cli.demo.picture import bar, picture
from headrace.cli.demo.prompts import WEIGHTS, asks
from headrace.cli.demo.score import first_tokens, percentile, shares, waits


def board_of(*tenants: str, tier: str = "interactive") -> Board:
    board = Board(weights={"atlas": 2, "birch": 1})
    board.plan(Ask(number, tenant, tier, How.WAIT, "?") for number, tenant in enumerate(tenants))
    return board


def answer(board: Board, number: int, at_ms: int, tokens: int = 10) -> None:
    board.sent(number, 0)
    board.accepted(number, f"req_{number}", 1)
    board.answered(number, at_ms, text="yes", tokens=tokens)


def test_the_nearest_rank_is_a_value_that_was_seen() -> None:
    values = list(range(1, 21))
    assert (percentile(values, 50), percentile(values, 95), percentile([7], 95)) == (10, 19, 7)
    assert percentile([], 50) is None


@given(st.lists(st.integers(0, 10**6), min_size=1), st.integers(1, 100))
def test_at_least_that_many_values_are_within_the_percentile(values: list[int], percent: int) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)


def test_shares_are_those_of_the_time_when_all_had_work() -> None:
    board = board_of("atlas", "atlas", "birch", "birch", "birch")
    answer(board, 0, 100)
    answer(board, 2, 110, tokens=5)
    answer(board, 1, 120)  # atlas has nothing left: what birch gets from here on says nothing of fairness
    answer(board, 3, 130, tokens=500)
    by_tenant = {share.tenant: share for share in shares(board)}
    assert (by_tenant["atlas"].tokens, by_tenant["birch"].tokens) == (20, 5)
    assert (by_tenant["atlas"].got, round(by_tenant["atlas"].due, 3)) == (0.8, 0.667)


def test_recorded_starts_decide_the_shares_once_all_are_known() -> None:
    board = board_of("atlas", "atlas", "birch", "birch")
    for number in range(4):
        answer(board, number, 100 + number)
    for number, started_ms in enumerate((10, 30, 20, 40)):  # atlas has nothing waiting after 30
        board.recorded(number, started_ms=started_ms, queued_ms=0, first_token_ms=None)
    assert [share.tokens for share in shares(board)] == [20, 10]


def test_nothing_is_complete_until_each_has_one_answer_under_its_own_id() -> None:
    board = board_of("atlas", "birch")
    seen = [board.every_one_once]
    answer(board, 0, 50)
    seen.append(board.every_one_once)
    answer(board, 1, 60)
    seen.append(board.every_one_once)
    board.answered(1, 70, text="again", tokens=1)
    seen.append(board.every_one_once)
    assert seen == [False, False, True, False]


def test_two_prompts_with_one_id_are_not_each_once() -> None:
    board = board_of("atlas", "birch")
    answer(board, 0, 50)
    answer(board, 1, 60)
    board.rows[1].request_id = board.rows[0].request_id
    assert not board.every_one_once


def test_a_wait_ends_with_the_first_token() -> None:
    board = board_of("atlas")
    board.sent(0, 100)
    assert board.rows[0].waited_ms(150) == 50
    board.piece(0, "Hel", 300)
    board.piece(0, "lo", 900)
    assert (board.rows[0].waited_ms(1000), board.rows[0].tokens, board.rows[0].text) == (200, 2, "Hello")
    assert board.rows[0].state is State.RUNNING


def test_a_failure_is_an_end_and_no_answer() -> None:
    board = board_of("atlas")
    board.sent(0, 0)
    board.failed(0, 5, "503 the pool is full")
    assert board.ended
    assert (board.answered_count, board.every_one_once) == (0, False)


def test_the_rows_shown_fit_and_running_ones_come_before_waiting_ones() -> None:
    board = board_of(*["atlas"] * 10)
    for number in range(10):
        board.sent(number, 0)
    answer(board, 0, 10)
    board.running(9, 20)
    shown = board.visible(4)
    assert len(shown) == 4
    assert {0, 9} <= {row.ask.number for row in shown}


def test_the_picture_is_never_higher_than_the_terminal() -> None:
    board = Board(WEIGHTS)
    board.plan(asks())
    for row in board.rows.values():
        board.sent(row.ask.number, 0)
    for height in (12, 24, 60):
        screen = Console(width=80, height=height, file=io.StringIO())
        with screen.capture() as drawn:
            screen.print(picture(board, 1000, height, "headrace"))
        assert len(drawn.get().splitlines()) < height


def test_every_tenant_asks_as_much_in_each_tier_and_by_every_door() -> None:
    planned = asks()
    counts = {(ask.tenant, ask.tier): 0 for ask in planned}
    for ask in planned:
        counts[ask.tenant, ask.tier] += 1
    assert len(planned) == 36
    assert len(set(counts.values())) == 1
    assert {ask.how for ask in planned if ask.tenant == "atlas"} == set(How)


def test_a_bar_marks_what_the_weight_promises() -> None:
    board = board_of("atlas", "birch")
    answer(board, 0, 10, tokens=0)
    assert "┃" in bar(shares(board)[0]).plain
    assert "67%" in bar(shares(board)[0]).plain


def test_waits_are_those_that_headrace_recorded_by_tier() -> None:
    board = Board(weights={"atlas": 1})
    board.plan(
        Ask(number, "atlas", "standard" if number else "interactive", How.WAIT, "?") for number in range(4)
    )
    for number, queued_ms in enumerate((5, 10, 30, 20)):
        answer(board, number, 100)
        first = queued_ms + 1 if number == 1 else None
        board.recorded(number, started_ms=number, queued_ms=queued_ms, first_token_ms=first)
    assert [(tier.tier, tier.count, tier.p50_ms, tier.p95_ms) for tier in waits(board)] == [
        ("interactive", 1, 5, 5),
        ("standard", 3, 20, 30),
    ]
    assert first_tokens(board) == {"interactive": None, "standard": 11}
