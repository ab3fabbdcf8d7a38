"""The drill's judge catches what it is there for, on histories made by hand."""

from collections import Counter
from typing import Any

import pytest

from tests.support.drill import VICTIMS, planned
from tests.support.drill_judge import Read, _at_rest, _checkpoint, _logs, _runs

TOPIC = "headrace.requests.main.batch"


def read(record: dict[str, Any], offset: int = 0, topic: str = "t") -> Read:
    return Read(topic, 0, offset, 1_000 + offset, record)


def run(sequence: int, boot: str) -> dict[str, Any]:
    return {"type": "run", "attempt": [1, sequence], "boot": boot, "request": {"id": "req_a"}}


def report(worker: str, boot: str, **more: Any) -> dict[str, Any]:
    return {"type": "report", "worker": worker, "boot": boot, **more}


def logs(**topics: list[dict[str, Any]]) -> dict[str, list[Read]]:
    named = ("results", "attempts.main", "work.main", "workers.main", "state.main", "requests")
    found = {name: topics.get(name.removesuffix(".main"), []) for name in named}
    return {name: [read(record, n, TOPIC) for n, record in enumerate(each)] for name, each in found.items()}


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({}, 1),
        ({"attempts": [{"attempt": [1, 1], "verdict": "retry_at"}]}, 0),
        ({"workers": [report("w", "b1"), report("w", "b2")]}, 0),
        ({"workers": [report("w", "b1"), report("x", "b2")]}, 1),
    ],
)
def test_a_second_run_needs_a_reason(more: dict[str, Any], wrong: int) -> None:
    starts = Counter({"req_a-1.1": 1, "req_a-1.2": 1})
    assert len(_runs(logs(work=[run(1, "b1"), run(2, "b2")], **more), starts)) == wrong


def test_a_command_that_reached_no_engine_needs_none_and_an_attempt_starts_once() -> None:
    history = logs(work=[run(1, "b1"), run(2, "b1")])
    assert _runs(history, Counter({"req_a-1.2": 1})) == []
    assert len(_runs(logs(), Counter({"req_a-1.2": 2}))) == 1


@pytest.mark.parametrize(
    ("prefix", "beyond", "results", "wrong"),
    [
        (2, {}, ["a", "b"], 0),
        (1, {}, ["a", "b"], 1),
        (0, {"0": "Aw=="}, ["a", "b"], 0),
        (2, {}, ["a"], 1),
    ],
)
def test_finished_in_the_checkpoint_and_ended_in_the_log_are_the_same(
    prefix: int, beyond: dict[str, str], results: list[str], wrong: int
) -> None:
    finished = {"type": "finished", "topic": TOPIC, "partition": 0, "prefix": prefix, "beyond": beyond}
    history = logs(
        requests=[{"id": "a"}, {"id": "b"}], results=[{"id": one} for one in results], state=[finished]
    )
    assert len(_checkpoint(history)) == wrong


def test_an_old_owners_checkpoint_after_a_new_owners_is_told() -> None:
    state = [{"type": "ownership", "epoch": epoch} for epoch in (1, 2, 1)]
    assert len(_checkpoint(logs(state=state))) == 1


def test_a_slot_that_is_never_given_back_is_told() -> None:
    idle = [read({"tier": "batch", "limit": 10})]
    assert _at_rest(idle, [read(report("w", "b"))]) == []
    assert len(_at_rest([read({"tier": "batch", "limit": 10, "held": 1})], [])) == 1
    assert len(_at_rest(idle, [read(report("w", "b", held=[{}]))])) == 1


def test_an_error_or_a_flood_in_a_log_is_told(tmp_path: Any) -> None:
    (tmp_path / "quiet.log").write_text('{"level":"warning"}\n')
    assert _logs(tmp_path) == []
    (tmp_path / "crashed.log").write_text('{"level":"error","event":"service crashed"}\n')
    (tmp_path / "loud.log").write_text('{"level":"info"}\n' * 4_000)
    assert len(_logs(tmp_path)) == 2


def test_a_seed_is_a_plan() -> None:
    assert planned(7, 12, 40) == planned(7, 12, 40) != planned(8, 12, 40)
    assert {blow.victim for seed in range(20) for blow in planned(seed, 12, 40)} == set(VICTIMS)
