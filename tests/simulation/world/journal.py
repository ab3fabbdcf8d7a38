"""A run as a history for tests/support/checker, the oracle that drills and simulations share. Called by world.judge.

Invariant: what stands here is what was really written, stored, run and shown; nothing is left out to please.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bus.messages import Place
from tests.simulation.world.readers import NativeReader
from tests.support.checker import history as past
from tests.support.scheduler.pure import NAMES

if TYPE_CHECKING:
    from tests.simulation.world.evidence import Evidence
    from tests.simulation.world.run import World

_TOLD = ("requests", "results", "attempts", "state", "dlq")


def history_of(world: World, texts: dict[str, str | None], facts: Evidence) -> past.History:
    """Everything that the checker may ask of a run. `texts`: what is stored, by request."""
    history = past.History(_records(world))
    history.add(*_asked(world, facts.cancelled_where_it_is()), *_runs(world), *_rows(world, texts))
    history.add(*(past.Death(worker="", boot=boot, at_ms=at) for boot, at in facts.deaths.items()))
    return history


def _records(world: World) -> Iterator[past.Entry]:
    for where, log in world.stage.broker.logs.items():
        topic = where.topic.removeprefix(NAMES.prefix)
        if topic.split(".")[0] not in _TOLD:
            continue
        for offset, entry in enumerate(log.entries):
            header = None if entry.received is None else entry.received.header
            if header is not None and header.startswith(b'{"'):
                yield past.Record(
                    topic=topic, partition=where.partition, offset=offset, at_ms=entry.at_ms,
                    record=_plain(header, where),
                )  # fmt: skip


def _plain(header: bytes, where: Place) -> dict[str, Any]:
    try:
        record: dict[str, Any] = msgspec.json.decode(header)
    except msgspec.DecodeError:
        return {"undecodable": str(where)}
    return record


def _asked(world: World, cancelled: dict[str, int]) -> Iterator[past.Entry]:
    for asked in world.callers.asked.values():
        mine = asked.record.id
        if asked.accepted_ms is not None:
            yield past.Accepted(id=mine, tenant=asked.record.tenant, at_ms=asked.accepted_ms)
        if asked.cancelled_ms is not None or asked.cancel_tried:
            yield past.CancelAsked(id=mine, kept=mine in cancelled, at_ms=cancelled.get(mine))
        for at_ms, status in asked.statuses:
            yield past.Seen(id=mine, event="status", reader="poll", status=status.value, at_ms=at_ms)
        for number, reader in enumerate(asked.readers):
            if isinstance(reader, NativeReader) and reader.had.ended:
                yield past.Seen(id=mine, event="text", reader=f"reader{number}", text=reader.had.text)
                yield past.Seen(id=mine, event="end", reader=f"reader{number}", status=reader.had.status)


def _runs(world: World) -> Iterator[past.Entry]:
    for worker in world.workers:
        for run in worker.runs:
            yield past.Run(
                id=run.request, attempt=(run.attempt.epoch, run.attempt.sequence), worker=worker.name, boot=run.boot,
                start_ms=run.began_ms, end_ms=run.ended_ms, hop=run.hop,
            )  # fmt: skip
            if run.disturbed:
                yield past.Death(worker=worker.name, boot=run.boot, at_ms=run.began_ms)


def _rows(world: World, texts: dict[str, str | None]) -> Iterator[past.Entry]:
    yield past.Table(name=past.RESULTS)
    for request_id, row in world.database.results().items():
        attempt = [row["attempt_epoch"], row["attempt_sequence"]]
        told = {"id": request_id, "status": row["status"], "attempt": attempt}
        if request_id in texts:
            told["text"] = texts[request_id]
        yield past.Row(table=past.RESULTS, row=told)
    yield past.Table(name=past.LEDGER)
    for row in world.database.ledger():
        yield past.Row(table=past.LEDGER, row=row)
