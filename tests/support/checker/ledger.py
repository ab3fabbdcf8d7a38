"""The rule about the ledger: one row for each finished attempt, with the numbers of its first record. Called by judging.

Silent while nobody has looked at the table. An attempt's record may stand in the log more than once: it counts once.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.support.checker.history import LEDGER, History

COMPARED = ("verdict", "status", "tenant", "completion_tokens", "prompt_tokens")
"""What a row and its record must agree on, as far as both have it."""


def ledger_differs(history: History) -> Iterator[str]:
    """A finished attempt without a row, with two, a row without an attempt, or one with other numbers."""
    rows = history.rows(LEDGER)
    if rows is None:
        return
    finished: dict[tuple[object, ...], dict[str, Any]] = {}
    for each in history.records("attempts"):
        finished.setdefault(_key(each.record), each.record)
    counted = Counter(_key(row) for row in rows)
    yield from (
        f"{_name(key)} finished and has no row" for key in sorted(finished.keys() - counted.keys(), key=str)
    )
    yield from (
        f"{_name(key)} has a row and never finished"
        for key in sorted(counted.keys() - finished.keys(), key=str)
    )
    yield from (f"{_name(key)} has {count} rows" for key, count in counted.items() if count > 1)
    for row in rows:
        record = _flat(finished.get(_key(row), row))
        wrong = [name for name in COMPARED if name in row and name in record and row[name] != record[name]]
        yield from (
            f"{_name(_key(row))} has {name} {row[name]}, and its record {record[name]}" for name in wrong
        )


def _key(record: dict[str, Any]) -> tuple[object, ...]:
    return record["id"], *record["attempt"]


def _name(key: tuple[object, ...]) -> str:
    return "{}: attempt ({}, {})".format(*key)


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """A record keeps its tokens one level deeper, and leaves out what is nothing."""
    usage = {"completion_tokens": 0, "prompt_tokens": 0} | record.get("usage", {})
    return {"status": None, **usage, **record} if "verdict" in record else record
