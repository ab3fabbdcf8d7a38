"""Rules about ends: nothing accepted is lost, each request has one outcome, and it is the first terminal record.

Called by judging. Each rule yields a sentence for each thing that is wrong.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.support.checker.history import RESULTS, Accepted, CancelAsked, History, Record, Seen
from tests.support.checker.lifecycle import TERMINAL


def lost(history: History) -> Iterator[str]:
    """Accepted, or kept in the log of requests, and without a result in the database."""
    rows = history.rows(RESULTS)
    if rows is None:
        return
    ended = {row["id"] for row in rows}
    prompts = {each.id: each.prompt for each in history.of(Accepted)}
    kept = {each.record["id"] for each in history.records("requests") if "id" in each.record}
    for request in sorted((prompts.keys() | kept) - ended):
        yield f"{request} was {'accepted' if request in prompts else 'kept'} and has no result"


def second_outcome(history: History) -> Iterator[str]:
    """One request with two rows, or somebody was told another end than the stored one."""
    rows = history.rows(RESULTS)
    for request, count in Counter(row["id"] for row in rows or ()).items():
        if count > 1:
            yield f"{request} has {count} rows"
    stored: dict[str, object] = {row["id"]: row["status"] for row in rows or ()}
    for each in history.of(Seen):
        if each.status not in TERMINAL:
            continue
        known = stored.setdefault(each.id, each.status)
        if each.status != known:
            yield f"{each.reader} was told that {each.id} has {each.status}, and its result is {known}"


def first_in_the_log(history: History) -> Iterator[str]:
    """The stored result is the first terminal record of its request, and all of a request's stand in one partition."""
    first: dict[str, Record] = {}
    for each in history.records("results"):
        known = first.setdefault(each.record["id"], each)
        if known.partition != each.partition:
            yield f"{each.record['id']} has results in partitions {known.partition} and {each.partition}: none is the first"
    for row in history.rows(RESULTS) or ():
        record = first.get(row["id"])
        if record is None:
            yield f"{row['id']} has a row that no record of results tells of"
        elif (wanted := _told(record.record)) != (stored := _told(row)):
            yield f"{row['id']} is stored as {stored}, and the first record at {_place(record)} says {wanted}"


def _told(record: dict[str, Any]) -> tuple[object, tuple[int, ...]]:
    return record["status"], tuple(record["attempt"])


def _place(record: Record) -> str:
    return f"{record.topic}/{record.partition}@{record.offset}"


def cancelled_unasked(history: History) -> Iterator[str]:
    """Cancelled, though its caller never asked for that. Only of requests in the journal: of others nobody knows."""
    asked = {each.id for each in history.of(CancelAsked)}
    mine = {each.id for each in history.of(Accepted)}
    for row in history.rows(RESULTS) or ():
        if row["status"] == "cancelled" and row["id"] in mine - asked:
            yield f"{row['id']} was cancelled and nobody asked for it"


def dead_without_letter(history: History) -> Iterator[str]:
    """Dead-lettered, and its bytes aren't kept among the dead letters."""
    letters = {each.record.get("id") for each in history.records("dlq")}
    for row in history.rows(RESULTS) or ():
        if row["status"] == "dead_lettered" and row["id"] not in letters:
            yield f"{row['id']} is dead-lettered and has no dead letter"
