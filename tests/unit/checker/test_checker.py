"""The checker finds each broken promise, by exactly its rule, and a good history is none."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.checker.history import (
    Accepted,
    CancelAsked,
    Death,
    Entry,
    Failed,
    History,
    Record,
    Row,
    Run,
    Seen,
    Table,
    load,
    save,
)
from tests.support.checker.judging import RULES, judge, told

REQUESTS = "requests.main.batch"


def result(offset: int, request: str, status: str, attempt: tuple[int, int], partition: int = 0) -> Record:
    record = {"id": request, "status": status, "attempt": list(attempt)}
    return Record(topic="results", partition=partition, offset=offset, record=record)


def attempt(offset: int, request: str, verdict: str, key: tuple[int, int], at_ms: int) -> Record:
    record = {"id": request, "attempt": list(key), "verdict": verdict, "usage": {"completion_tokens": 2}}
    return Record(topic="attempts.main", partition=0, offset=offset, record=record, at_ms=at_ms)


def row(request: str, status: str, key: tuple[int, int], text: str | None) -> Row:
    stored = {"id": request, "status": status, "attempt": list(key), "text": text}
    return Row(table="results", row=stored)


def ledger(request: str, key: tuple[int, int], tokens: int = 2) -> Row:
    return Row(table="ledger", row={"id": request, "attempt": list(key), "completion_tokens": tokens})


def request(offset: int, name: str) -> Record:
    return Record(topic=REQUESTS, partition=0, offset=offset, record={"id": name})


def state(offset: int, **record: object) -> Record:
    return Record(topic="state.main", partition=0, offset=offset, record=record)


def finished(offset: int, prefix: int, **beyond: str) -> Record:
    place = {"topic": "headrace." + REQUESTS, "partition": 0}
    return state(offset, type="finished", **place, prefix=prefix, beyond=beyond)


def good() -> History:
    """a: answered, streamed to two readers, one over a broken connection. b: its attempt failed, its second one's worker
    died, the third answered, a late result came too. c: cancelled while it waited. d: a killer. e: not in the journal.
    """
    return History(
        [
            *(Accepted(id=name, tenant="t", prompt=f"tell {name}", at_ms=n) for n, name in enumerate("abcd")),
            *(request(n, name) for n, name in enumerate("abcde")),
            state(0, type="ownership", epoch=1),
            Run(id="a", attempt=(1, 1), worker="w3", boot="b3", start_ms=100),
            Seen(id="a", event="status", status="running"),
            Seen(id="a", event="text", text="one "),
            Seen(id="a", event="broken"),
            Seen(id="a", event="text", text="two"),
            Seen(id="a", event="end", status="succeeded"),
            Seen(id="a", reader="gave up", event="text", text="other"),
            Seen(id="a", reader="gave up", event="broken"),
            Run(id="b", attempt=(1, 2), worker="w1", boot="b1", start_ms=100),
            Seen(id="b", event="text", text="wrong"),
            attempt(0, "b", "retry_at", (1, 2), 200),
            Run(id="b", attempt=(1, 3), worker="w1", boot="b1", start_ms=300),
            Death(worker="w1", boot="b1", at_ms=400, why="8 ticks"),
            state(1, type="ownership", epoch=2),
            Run(id="b", attempt=(2, 1), worker="w2", boot="b2", start_ms=500),
            Seen(id="b", event="restart"),
            Seen(id="b", event="text", text="right"),
            Seen(id="b", event="end", status="succeeded"),
            CancelAsked(id="c", kept=True, at_ms=100),
            Seen(id="c", reader="poll", event="status", status="cancelled"),
            result(0, "a", "succeeded", (1, 1)),
            result(1, "b", "succeeded", (2, 1)),
            result(2, "b", "succeeded", (1, 3)),
            result(3, "c", "cancelled", (2, 2)),
            result(4, "d", "dead_lettered", (2, 3)),
            result(5, "e", "succeeded", (2, 4)),
            Record(topic="dlq", partition=0, offset=0, record={"id": "d"}),
            attempt(1, "a", "done", (1, 1), 600),
            attempt(2, "a", "done", (1, 1), 601),
            finished(2, 4, **{"0": "EA=="}),
            row("a", "succeeded", (1, 1), "one two"),
            row("b", "succeeded", (2, 1), "right"),
            row("c", "cancelled", (2, 2), None),
            row("d", "dead_lettered", (2, 3), None),
            row("e", "succeeded", (2, 4), "?"),
            Table(name="ledger"),
            ledger("a", (1, 1)),
            ledger("b", (1, 2)),
        ]
    )  # fmt: skip


Breaks = Callable[[History], object]


def without(history: History, gone: Callable[[Entry], bool]) -> None:
    history.entries = [entry for entry in history.entries if not gone(entry)]


def is_row(entry: Entry, table: str, request: str) -> bool:
    return isinstance(entry, Row) and entry.table == table and entry.row["id"] == request


def with_text(history: History, text: str) -> None:
    without(history, lambda entry: is_row(entry, "results", "a"))
    history.add(row("a", "succeeded", (1, 1), text))


def other_tokens(history: History) -> None:
    without(history, lambda entry: is_row(entry, "ledger", "b"))
    history.add(ledger("b", (1, 2), 3))


BROKEN: list[tuple[str, str, Breaks]] = [
    ("an accepted request without a row", "lost", lambda h: h.add(Accepted(id="f"))),
    ("a kept request that nobody was told of", "lost", lambda h: h.add(request(5, "f"))),
    (
        "a second row", "second outcome",
        lambda h: h.add(row("a", "succeeded", (1, 1), "one two")),
    ),
    (
        "two readers are told two ends", "second outcome",
        lambda h: h.add(Seen(id="a", reader="poll", event="status", status="failed")),
    ),
    (
        "a status after the end", "illegal move",
        lambda h: h.add(Seen(id="a", event="status", status="running")),
    ),
    (
        "a word that is no status", "illegal move",
        lambda h: h.add(Seen(id="a", reader="poll", event="status", status="lost")),
    ),
    ("a reader's text isn't what is stored", "wrong text", lambda h: with_text(h, "one too")),
    ("a stream ends before the stored text does", "wrong text", lambda h: with_text(h, "one two three")),
    (
        "text of another attempt and no restart", "wrong text",
        lambda h: without(h, lambda e: isinstance(e, Seen) and e.event == "restart"),
    ),
    (
        "an open stream is no beginning of the stored text", "wrong text",
        lambda h: h.add(Seen(id="a", reader="late", event="text", text="two")),
    ),
    (
        "text and nothing stored", "wrong text",
        lambda h: h.add(Seen(id="c", event="text", text="x"), Seen(id="c", event="end", status="cancelled")),
    ),
    (
        "a run after one that goes on", "run again without a reason",
        lambda h: h.add(Run(id="a", attempt=(2, 9), worker="w2", boot="b2", start_ms=700)),
    ),
    (
        "a run before the death that would be its reason", "run again without a reason",
        lambda h: h.add(
            Run(id="a", attempt=(2, 9), worker="w2", boot="b2", start_ms=399), Death(worker="w3", boot="b3", at_ms=400)
        ),
    ),
    (
        "another worker's death", "run again without a reason",
        lambda h: h.add(
            Run(id="e", attempt=(2, 4), worker="w2", boot="b2", start_ms=10), Death(worker="w3", at_ms=20),
            Run(id="e", attempt=(2, 9), worker="w2", boot="b2", start_ms=30),
        ),
    ),
    (
        "a death of the worker before it began", "run again without a reason",
        lambda h: h.add(
            Death(worker="w2", at_ms=5), Run(id="e", attempt=(2, 4), worker="w2", start_ms=10),
            Run(id="e", attempt=(2, 9), worker="w2", start_ms=30),
        ),
    ),
    (
        "one attempt twice", "run again without a reason",
        lambda h: h.add(Run(id="a", attempt=(1, 1), worker="w3", boot="b3", start_ms=100)),
    ),
    ("a finished attempt without a ledger row", "ledger against attempts",
     lambda h: without(h, lambda e: is_row(e, "ledger", "b"))),
    ("two ledger rows", "ledger against attempts", lambda h: h.add(ledger("a", (1, 1)))),
    ("a ledger row of nothing", "ledger against attempts", lambda h: h.add(ledger("e", (2, 4)))),
    (
        "a ledger row with other tokens", "ledger against attempts",
        other_tokens,
    ),
    (
        "an earlier record says otherwise", "not the first record",
        lambda h: without(h, lambda e: isinstance(e, Record) and (e.topic, e.offset) == ("results", 1)),
    ),
    (
        "a row that nobody wrote", "not the first record",
        lambda h: h.add(row("f", "succeeded", (3, 1), "x")),
    ),
    (
        "results of one request in two partitions", "not the first record",
        lambda h: h.add(result(9, "a", "succeeded", (1, 1), partition=1)),
    ),
    (
        "cancelled and nobody asked", "cancelled unasked",
        lambda h: without(h, lambda e: isinstance(e, CancelAsked)),
    ),
    (
        "started long after its cancel", "started long after its cancel",
        lambda h: h.add(Run(id="c", attempt=(2, 9), worker="w2", start_ms=20_101)),
    ),
    (
        "a dead letter that wasn't kept", "dead without a letter",
        lambda h: without(h, lambda e: isinstance(e, Record) and e.topic == "dlq"),
    ),
    (
        "an old owner's checkpoint", "old owner's checkpoint",
        lambda h: h.add(state(9, type="ownership", epoch=1)),
    ),
    (
        "finished in the bitmap and not ended", "finished without an end",
        lambda h: without(
            h, lambda e: isinstance(e, Row | Table) or (isinstance(e, Record) and (e.topic, e.offset) == ("results", 5))
        ),
    ),
]  # fmt: skip


def test_a_good_history_breaks_no_rule() -> None:
    assert told(judge(good())) == []


@pytest.mark.parametrize(
    ("rule", "breaks"), [(rule, breaks) for _, rule, breaks in BROKEN], ids=[name for name, *_ in BROKEN]
)
def test_a_broken_history_is_found_by_its_rule_alone(rule: str, breaks: Breaks) -> None:
    history = good()
    breaks(history)
    assert {each.rule for each in judge(history)} == {rule}


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert {rule for _, rule, _ in BROKEN} == set(RULES)


def test_a_failure_that_only_the_history_notes_is_a_reason() -> None:
    history = good()
    history.add(Failed(id="a", attempt=(1, 1), at_ms=650), Run(id="a", attempt=(2, 9), start_ms=700))
    assert judge(history) == []


def test_another_pools_attempts_come_after_those_before_it_was_passed_on() -> None:
    """Each pool counts its own: the second may have a lesser number, or the same."""
    for first, second in (((4, 2), (2, 15)), ((2, 4), (2, 4))):
        history = good()
        history.add(
            Run(id="e", attempt=first, worker="w2", boot="b2", start_ms=10),
            Death(worker="w2", boot="b2", at_ms=20),
            Run(id="e", attempt=second, worker="w3", boot="b3", start_ms=30, hop=1),
        )
        assert judge(history) == []


def test_what_nobody_looked_at_breaks_no_rule() -> None:
    assert judge(History([Accepted(id="a"), attempt(0, "a", "done", (1, 1), 1)])) == []


def test_a_saved_history_is_judged_alike(tmp_path: Path) -> None:
    history = good()
    history.add(Accepted(id="f"))
    save(history, tmp_path / "run.jsonl")
    assert load(tmp_path / "run.jsonl").entries == history.entries
    command = [sys.executable, "-m", "tests.support.checker", str(tmp_path / "run.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "f was accepted and has no result" in done.stdout


def test_a_good_saved_history_is_held(tmp_path: Path) -> None:
    save(good(), tmp_path / "run.jsonl")
    command = [sys.executable, "-m", "tests.support.checker", str(tmp_path / "run.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "held")
