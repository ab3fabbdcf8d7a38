"""The recovery program measures what it says, on logs made by hand; a figure that is missed or missing isn't held."""

from typing import Any

import pytest

from tests.benchmarks.recovery import DOOR, WORKER, Figure
from tests.benchmarks.recovery_times import Submit, longest_stall, longest_trouble, next_released, taken_up
from tests.support.checker.history import Record


def run(at_ms: int, request: str, boot: str) -> Record:
    record = {"type": "run", "boot": boot, "attempt": [1, at_ms], "request": {"id": request}}
    return Record(topic="work.main", partition=0, offset=at_ms, record=record, at_ms=at_ms)


def row(request: str, dispatched_ms: int, finished_ms: int, committed_ms: int) -> dict[str, Any]:
    return {
        "id": request,
        "dispatched_ms": dispatched_ms,
        "finished_ms": finished_ms,
        "committed_ms": committed_ms,
    }


@pytest.mark.parametrize(("seconds", "held"), [([4.9], True), ([1.0, 5.1], False), ([], False)])
def test_the_worst_trial_counts_and_none_at_all_is_missed(seconds: list[float], held: bool) -> None:
    assert Figure(WORKER, seconds).held is held


def test_a_workers_death_is_mended_when_the_first_request_that_it_held_has_ended() -> None:
    runs = [run(500, "a", "dead"), run(600, "b", "dead"), run(700, "c", "other"), run(900, "d", "dead")]
    again = [run(5_000, "a", "other"), run(5_100, "b", "other"), run(5_200, "d", "other")]
    rows = [
        row("a", 5_000, 5_900, 0),
        row("b", 5_100, 5_400, 0),
        row("c", 700, 1_200, 0),
        row("d", 0, 950, 0),
    ]
    assert taken_up([*runs, *again], rows, 1_000, {"dead"}) == pytest.approx(4.4)


def test_a_schedulers_death_is_mended_when_a_request_that_was_released_afterwards_has_ended() -> None:
    rows = [row("a", 900, 1_500, 0), row("b", 5_000, 5_600, 0), row("c", 5_000, 5_500, 0)]
    assert next_released(rows, 1_000) == pytest.approx(4.5)


def test_a_deliverys_death_is_mended_when_nothing_waits_for_its_commit() -> None:
    rows = [
        row("a", 0, 900, 7_000),
        row("b", 0, 1_500, 7_900),
        row("c", 0, 2_000, 2_010),
        row("d", 0, 500, 800),
    ]
    assert longest_stall(rows, 1_000) == pytest.approx(6.4)


def test_trouble_at_the_door_is_one_stretch_of_failed_and_waiting_submits() -> None:
    submits = [
        Submit(0, 100, 503, ""),
        Submit(1_100, 1_150, 202, "a"),
        Submit(1_200, 4_000, 202, "b"),
        Submit(3_900, 3_950, 503, ""),
        Submit(3_980, 9_000, 202, "c"),
        Submit(20_000, 21_500, 202, "d"),
    ]
    assert longest_trouble(submits, 1_000, 30_000) == pytest.approx(7.8)
    assert Figure(DOOR, [7.8]).held
