"""What the drill gathers and asks for: deaths by the log, runs that reached an engine, runs that count, rest, quiet logs."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.checker.history import Accepted, Death, History, Record, Row, Run, Seen
from tests.support.drill.at_rest import bad_ends, loud_logs, unfinished, unrest, wrong_answers
from tests.support.drill.counting import counted
from tests.support.drill.evidence import deaths_of, runs_of
from tests.support.drill.memory import slope
from tests.support.drill.plan import Action
from tests.support.drill.run import Outcome, Verdict
from tests.support.drill.striking import Struck


def log(topic: str, *records: dict[str, Any]) -> list[Record]:
    return [
        Record(topic=topic, partition=0, offset=n, at_ms=1_000 * (n + 1), record=one)
        for n, one in enumerate(records)
    ]


def report(worker: str, boot: str, **more: Any) -> dict[str, Any]:
    return {"type": "report", "worker": worker, "boot": boot, **more}


def ticks(*numbers: int, epoch: int = 1) -> list[dict[str, Any]]:
    return [{"type": "tick", "epoch": epoch, "number": number} for number in numbers]


def died(workers: list[Record], work: list[Record] | None = None) -> list[tuple[str | None, int | None]]:
    return [(death.boot, death.at_ms) for death in deaths_of(workers, work or [])]


def test_eight_ticks_of_one_epoch_after_its_last_report_are_a_death() -> None:
    assert died(log("workers", report("w", "b1"), *ticks(*range(8)))) == [("b1", 9_000)]
    assert died(log("workers", report("w", "b1"), *ticks(*range(7)))) == []
    assert died(log("workers", report("w", "b1"), *ticks(*range(7)), report("w", "b1"), *ticks(7))) == []
    assert died(log("workers", report("w", "b1"), *ticks(0, 0, 0, 0, 0, 0, 0, 0))) == []
    assert died(log("workers", report("w", "b1"), *ticks(*range(7)), *ticks(8, epoch=2))) == []


def test_a_later_boot_and_a_goodbye_are_deaths_and_an_old_record_is_none() -> None:
    assert died(log("workers", report("w", "b1"), report("w", "b2"), report("w", "b1"))) == [("b1", 2_000)]
    assert died(log("workers", report("w", "b1"), report("x", "b2"))) == []
    assert died(log("workers", report("w", "b1"), {"type": "gone", "worker": "w", "boot": "b1"})) == [
        ("b1", 2_000)
    ]


def test_a_burial_is_a_death_a_little_before_it_is_told() -> None:
    work = [Record(topic="work", partition=0, offset=0, at_ms=9_000, record={"type": "buried", "boot": "b1"})]
    assert died(log("workers", report("w", "b1")), work) == [("b1", 7_000)]


def test_a_run_is_a_command_that_reached_an_engine(tmp_path: Path) -> None:
    journal = tmp_path / "engine.jsonl"
    seen = [{"headers": [["X-Request-Id", key]]} for key in ("r-1.1", "r-1.3", "r-1.3")]
    journal.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in seen))
    commands = [
        {"type": "run", "attempt": [1, n], "boot": "b1", "request": {"id": "r"}} for n in (1, 2, 3, 4)
    ]
    workers = log(
        "workers", report("w", "b1", held=[{"attempt": [1, 4], "running": True}, {"attempt": [1, 2]}])
    )
    runs = runs_of(log("work", *commands, commands[0]), workers, [journal])
    assert [run.attempt for run in runs] == [(1, 1), (1, 3), (1, 3), (1, 4)]
    assert {run.worker for run in runs} == {"w"}


LIFE = {"accepted_ms": 10, "dispatched_ms": 20, "started_ms": 30, "finished_ms": 40, "committed_ms": 50}


def full_history() -> History:
    return History(
        [
            Run(id="a", attempt=(1, 1)),
            Run(id="a", attempt=(2, 1)),
            Seen(id="a", event="restart"),
            *log("results", {"id": "a"}, {"id": "a"}),
            *log("state.main", {"type": "ownership", "epoch": 1}, {"type": "ownership", "epoch": 2}),
            Row(table="results", row={"id": "a", **LIFE}),
        ]
    )


def struck(began_ms: int, mended_ms: int) -> Struck:
    return Struck("w", Action.KILL, began_ms, mended_ms)


def test_a_run_that_met_all_of_it_counts() -> None:
    assert counted(full_history(), [struck(0, 100)]).lacking == []


@pytest.mark.parametrize("kind", [Run, Seen])
def test_without_a_rerun_or_a_restart_it_is_void(kind: type[Run | Seen]) -> None:
    history = full_history()
    history.entries = [entry for entry in history.entries if not isinstance(entry, kind)]
    assert len(counted(history, [struck(0, 100)]).lacking) == 1


@pytest.mark.parametrize(
    ("topic", "lacks"), [("results", "a suppressed result"), ("state.main", "a takeover")]
)
def test_without_a_suppressed_result_or_a_takeover_it_is_void(topic: str, lacks: str) -> None:
    history = full_history()
    history.entries = [
        e for e in history.entries if not (isinstance(e, Record) and e.topic == topic and e.offset)
    ]
    assert counted(history, [struck(0, 100)]).lacking == [lacks]


@pytest.mark.parametrize(
    ("began_ms", "mended_ms", "met"),
    [
        (0, 9, []),
        (0, 15, ["queued"]),
        (35, 45, ["running", "finishing"]),
        (51, 60, []),
        (21, 22, ["dispatched"]),
    ],
)
def test_a_fault_meets_what_is_in_a_state_while_it_lasts(
    began_ms: int, mended_ms: int, met: list[str]
) -> None:
    found = counted(full_history(), [struck(began_ms, mended_ms)])
    assert [state for state, count in found.met.items() if count] == met
    assert len(found.lacking) == 4 - len(met)


def test_what_is_wrong_is_wrong_in_a_void_run_too() -> None:
    void, full = counted(History(), []), counted(full_history(), [struck(0, 100)])
    verdicts = [Outcome(wrong, found).verdict for wrong in ([], ["lost"]) for found in (full, void)]
    assert verdicts == [Verdict.HELD, Verdict.VOID, Verdict.VIOLATED, Verdict.VIOLATED]


def test_a_slot_that_is_never_given_back_is_told() -> None:
    idle = log("queue-state", {"tier": "batch", "limit": 10})
    assert unrest(idle, log("workers", report("w", "b")), 10) == []
    assert len(unrest(log("queue-state", {"tier": "batch", "limit": 10, "held": 1}), [], 10)) == 1
    assert len(unrest(idle, log("workers", report("w", "b", held=[{}])), 10)) == 1
    assert len(unrest(idle, log("workers", report("w", "b")), 11)) == 1


def test_a_request_that_the_last_checkpoint_misses_is_told() -> None:
    topic = "requests.main.batch"
    finished = {"type": "finished", "topic": "headrace." + topic, "partition": 0, "prefix": 1}
    history = History([*log(topic, {"id": "a"}, {"id": "b"}), *log("state.main", finished)])
    assert len(unfinished(history)) == 1
    history.add(
        Record(topic="state.main", partition=0, offset=1, record={**finished, "beyond": {"0": "Ag=="}})
    )
    assert unfinished(history) == []


def test_a_bad_end_and_an_answer_of_another_prompt_are_told() -> None:
    history = History(
        [
            Accepted(id="a", prompt="drill 1"),
            Row(table="results", row={"id": "a", "status": "failed", "text": ""}),
        ]
    )
    assert len(bad_ends(history)) == 1
    assert wrong_answers(history) == []
    history.add(Row(table="results", row={"id": "a", "status": "succeeded", "text": "no such answer"}))
    assert len(wrong_answers(history)) == 1


def test_an_error_or_a_flood_in_a_log_is_told(tmp_path: Path) -> None:
    (tmp_path / "quiet.log").write_text('{"level":"warning"}\n')
    assert loud_logs(tmp_path) == []
    (tmp_path / "crashed.log").write_text('{"level":"error","event":"service crashed"}\n')
    (tmp_path / "loud.log").write_text('{"level":"info"}\n' * 4_000)
    assert len(loud_logs(tmp_path)) == 2


def test_a_slope_is_growth_by_time() -> None:
    assert slope([(0, 10), (60, 20), (120, 30)]) == pytest.approx(10 / 60)
    assert slope([(0, 10), (60, 10)]) == 0


def test_a_death_names_its_worker() -> None:
    assert deaths_of(log("workers", report("w", "b1"), report("w", "b2")), []) == [
        Death(worker="w", boot="b1", at_ms=2_000, why="a later boot")
    ]
