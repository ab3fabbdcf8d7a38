"""Was everybody outside told what is so: callers who ask, readers of streams, other services? Asked by world.judge.

Invariant: it asks no product code what is right; the lifecycle's table is written here anew.
"""

from collections.abc import Iterator
from itertools import pairwise

from headrace.contracts.lifecycle import Status
from headrace.contracts.topics import TopicKind
from tests.simulation.world.evidence import Evidence, text_of
from tests.simulation.world.readers import NativeReader, Reader
from tests.support.scheduler.pure import place

_PATH = ("queued", "dispatched", "running")


def outsiders_told(facts: Evidence) -> Iterator[str]:
    """Every violation, a sentence each."""
    yield from _moves(facts)
    yield from _read(facts)
    yield from _told(facts)


def _moves(facts: Evidence) -> Iterator[str]:
    """Legal moves only, as anybody saw them."""
    for asked in facts.world.callers.asked.values():
        for (_, before), (_, after) in pairwise(asked.statuses):
            if before.value not in _PATH and after is not before:
                yield f"moves: {asked.record.id[-6:]} was seen {before} and then {after}"
        row = facts.rows.get(asked.record.id)
        last = asked.statuses[-1][1] if asked.statuses else Status.QUEUED
        if row is not None and last.value not in _PATH and row["status"] != last.value:
            yield f"moves: {asked.record.id[-6:]} was told {last} and is stored as {row['status']}"


def _read(facts: Evidence) -> Iterator[str]:
    """What a reader was sent is what is stored, or it was told so."""
    for asked in facts.world.callers.asked.values():
        row = facts.rows.get(asked.record.id)
        for reader in asked.readers:
            if row is not None:
                yield from _read_by(facts, reader, text_of(row["body"]))


def _read_by(facts: Evidence, reader: Reader, stored: str | None) -> Iterator[str]:
    had, who = reader.had, reader.record.id[-6:]
    native = isinstance(reader, NativeReader)
    if native and not had.ended:
        yield f"read: a reader of {who} was never told the end"
    if had.ended and not had.refused and stored is not None and had.text != stored:
        yield f"read: a reader of {who} ended with {had.text!r} where {stored!r} is stored"
    if had.ended:
        facts.stage.saw("stream read to its end")


def _told(facts: Evidence) -> Iterator[str]:
    """Every result is told to other services, and its event stands in the log."""
    topic = place(TopicKind.EVENTS).topic
    told = {
        dict(entry.received.headers)["ce_id"].decode()
        for where, log in facts.stage.broker.logs.items()
        if where.topic == topic
        for entry in log.entries
        if entry.received is not None
    }
    for request_id, row in facts.rows.items():
        if f"{request_id}-{row['status']}" not in told:
            yield f"told: the end of {request_id[-6:]} has no event"
