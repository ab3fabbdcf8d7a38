"""The demo's callers against an engine that answers well, breaks off, refuses, or fails in the middle."""

import itertools

import aiohttp
import pytest

from headrace.cli.demo.board import Ask, Board, How, Row, State
from headrace.cli.demo.callers import Callers
from headrace.cli.demo.prompts import MODEL
from headrace.devkit.engine import FakeEngine


async def asked(how: How, prompt: str) -> tuple[Row, list[str]]:
    """One prompt asked of a fake engine: its row at the end, and what was told to have happened."""
    board, told, clock = Board({"atlas": 1}), [], itertools.count()
    ask = Ask(1, "atlas", "standard", how, prompt)
    board.plan([ask])
    async with FakeEngine(models=(MODEL,)) as engine, aiohttp.ClientSession() as session:
        callers = Callers(
            session,
            engine.url,
            {"atlas": "key"},
            board,
            now_ms=lambda: next(clock),
            happened=lambda kind, _row: told.append(kind),
        )
        await callers.ask(ask)
    return board.rows[1], told


@pytest.mark.parametrize("how", [How.STREAM, How.WAIT])
async def test_a_whole_answer_is_on_the_board_with_the_backends_own_count(how: How) -> None:
    row, told = await asked(how, "hello")
    assert (row.state, row.answers, told) == (State.SUCCEEDED, 1, ["accepted", "answered"])
    assert row.text
    assert row.tokens == 24


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [("cut", "broke off"), ("error-event", ""), ("503", "HTTP 503"), ("reset:2", "")],
)
async def test_a_stream_that_does_not_end_well_is_a_failure_with_a_sentence(
    fault: str, sentence: str
) -> None:
    row, told = await asked(How.STREAM, f"[[fault:{fault}]] hello")
    assert (row.state, row.answers, told[-1]) == (State.FAILED, 0, "failed")
    assert row.problem
    assert sentence in row.problem


async def test_a_refusal_at_the_door_was_never_accepted() -> None:
    row, told = await asked(How.POLL, "hello")  # an engine has no native door
    assert (row.state, row.accepted_ms, told) == (State.FAILED, None, ["failed"])
    assert "404" in row.problem
