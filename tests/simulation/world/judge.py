"""The verdict on a run that has come to rest, from what really happened: logs, database, runs, what readers were sent.

Called by world.run. Properties A to F are those of the protocol's design; the letters stand in the sentences. Invariant: it
asks no product code what is right; the lifecycle's table is written here anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bus.messages import Place
from headrace.contracts.checkpoints import Finished, Ownership, Positions
from headrace.contracts.codec import decode
from headrace.contracts.control import CancelRequest
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.reports import Report, Tick
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from tests.simulation.world.broker import Log
from tests.simulation.world.calls import Ran
from tests.simulation.world.readers import NativeReader, Reader
from tests.simulation.world.stage import TIERS, place

if TYPE_CHECKING:
    from tests.simulation.world.run import World

_LONG_AFTER_MS = 40_000
_NEVER = 10**12
_TICKS_TO_DEATH = 8
_PATH = ("queued", "dispatched", "running")


def judge(world: World) -> list[str]:
    """Every violation, a sentence each."""
    return [*world.stage.broken, *Judge(world).all()]


class Judge:
    """One run's verdict."""

    def __init__(self, world: World) -> None:
        self.world, self.stage = world, world.stage
        self.rows = world.database.results()
        self.results = self._first_results()
        self.deaths = self._deaths()
        self.firsts: dict[str, tuple[str, int, int]] = {}
        for request_id, where in self._requests():
            self.firsts.setdefault(request_id, where)

    def all(self) -> Iterator[str]:
        """Every violation."""
        yield from self.answered()
        yield from self.owners()
        yield from self.runs()
        yield from self.finished()
        yield from self.cancels()
        yield from self.moves()
        yield from self.read()
        yield from self.rest()

    def answered(self) -> Iterator[str]:
        """A: one result each, and it is the first terminal record."""
        for request_id in self.firsts:
            if request_id not in self.rows:
                yield f"A: {request_id[-6:]} has no committed result"
        for request_id, row in self.rows.items():
            first = self.results[request_id][0]
            if (row["attempt_epoch"], row["attempt_sequence"]) != tuple(first.attempt):
                yield f"A: the result of {request_id[-6:]} isn't its first terminal record"
            self.stage.saw("suppressed second result", len(self.results[request_id]) - 1)
        for asked in self.world.callers.asked.values():
            if asked.accepted_ms is not None and asked.record.id not in self.firsts:
                yield f"A: {asked.record.id[-6:]} was accepted and is nowhere"

    def owners(self) -> Iterator[str]:
        """B: owners follow each other, each with an epoch of its own."""
        owned: dict[int, str] = {}
        last = 0
        for _, record in self._of(TopicKind.STATE):
            if isinstance(record, Ownership):
                if record.epoch < last:
                    yield f"B: a checkpoint of epoch {record.epoch} after one of {last}"
                if owned.setdefault(record.epoch, record.owner) != record.owner:
                    yield f"B: epoch {record.epoch} has two owners"
                last = max(last, record.epoch)

    def runs(self) -> Iterator[str]:
        """C and D: never twice at a time, never again without a cause."""
        by_request: defaultdict[str, list[Ran]] = defaultdict(list)
        for run in sorted((r for w in self.world.workers for r in w.runs), key=lambda run: run.began_ms):
            by_request[run.request].append(run)
        for request_id, runs in by_request.items():
            for before, run in pairwise(runs):
                ended_ms = self.stage.now_ms if before.ended_ms is None else before.ended_ms
                dead = self.deaths.get(before.boot, _NEVER) <= run.began_ms
                excused = before.disturbed or dead
                if ended_ms > run.began_ms and not excused:
                    yield f"C: {request_id[-6:]} ran twice at a time, as {before.attempt} and {run.attempt}"
                if before.why == "done" and not excused:
                    yield f"D: {request_id[-6:]} ran again as {run.attempt} after {before.attempt} was done"

    def finished(self) -> Iterator[str]:
        """E: what a checkpoint calls finished has a terminal record before it."""
        ended = dict(self._ended_at())
        letters: dict[tuple[str, int, int], int] = {}
        for at_ms, letter in self._of(TopicKind.DLQ):
            letters.setdefault((letter.topic, letter.partition, letter.offset), at_ms)
        told: set[tuple[str, int, int]] = set()
        for at_ms, record in self._of(TopicKind.STATE):
            if not isinstance(record, Finished):
                continue
            for offset in _offsets(record):
                where = (record.topic, record.partition, offset)
                if where not in told:
                    told.add(where)
                    request = self._request_at(*where)
                    if request is not None and self.firsts[request.id] != where:
                        continue  # written twice: only the first needs an end
                    ended_ms = letters.get(where) if request is None else ended.get(request.id)
                    if ended_ms is None or ended_ms > at_ms:
                        yield f"E: {where} is finished at {at_ms} ms without a terminal record"

    def cancels(self) -> Iterator[str]:
        """F: nothing starts long after its cancel, and no checkpoint passes a cancel that isn't applied."""
        last_start = {run.request: run.began_ms for w in self.world.workers for run in w.runs}
        for asked in self.world.callers.asked.values():
            began_ms = last_start.get(asked.record.id, 0)
            if asked.cancelled_ms is not None and began_ms > asked.cancelled_ms + _LONG_AFTER_MS:
                yield f"F: {asked.record.id[-6:]} was cancelled at {asked.cancelled_ms} ms and began at {began_ms}"
        ended = dict(self._ended_at())
        passed = [(r.control, at) for at, r in self._of(TopicKind.STATE) if isinstance(r, Positions)]
        log = self.stage.broker.logs[place(TopicKind.CONTROL)]
        for offset, entry in enumerate(log.entries):
            record = None if entry.received is None else decode(TopicKind.CONTROL, entry.received.header)
            if isinstance(record, CancelRequest) and record.id in ended:
                first = next((at for control, at in passed if control > offset), None)
                if first is not None and first < ended[record.id]:
                    yield f"F: a checkpoint passed the cancel of {record.id[-6:]} before it ended"

    def moves(self) -> Iterator[str]:
        """Legal moves only, as anybody saw them."""
        for asked in self.world.callers.asked.values():
            for (_, before), (_, after) in pairwise(asked.statuses):
                if before.value not in _PATH and after is not before:
                    yield f"moves: {asked.record.id[-6:]} was seen {before} and then {after}"
            row = self.rows.get(asked.record.id)
            last = asked.statuses[-1][1] if asked.statuses else Status.QUEUED
            if row is not None and last.value not in _PATH and row["status"] != last.value:
                yield f"moves: {asked.record.id[-6:]} was told {last} and is stored as {row['status']}"

    def read(self) -> Iterator[str]:
        """What a reader was sent is what is stored, or it was told so."""
        for asked in self.world.callers.asked.values():
            row = self.rows.get(asked.record.id)
            for reader in asked.readers:
                if row is not None:
                    yield from self._read_by(reader, _text_of(row["body"]))

    def rest(self) -> Iterator[str]:
        """At rest nothing is charged, held or left in a window, and everybody is served."""
        owner = self.world.owner()
        if not self.world.at_rest():
            yield f"rest: it doesn't come to rest ({self._restless()})"
        if owner is None:
            return
        accounts = owner.state.accounts.tiers.values()
        each = [tier.account for tier in accounts] + [a for tier in accounts for a in tier.tenants.values()]
        if any(account.in_flight or account.charged for account in each):
            yield "rest: charges are left over"
        if any(p.records or p.size for p in owner.state.partitions.by_place.values()):
            yield "rest: a window isn't empty"
        if owner.state.retrying or owner.state.cancels or owner.state.overdue:
            yield "rest: something is kept of requests that have ended"
        junk = self.world.callers.garbage
        if junk and not self._of(TopicKind.DLQ) and any(True for _ in self._undecodable()):
            yield "rest: an undecodable record has no dead letter"

    def _read_by(self, reader: Reader, stored: str | None) -> Iterator[str]:
        had, who = reader.had, reader.record.id[-6:]
        native = isinstance(reader, NativeReader)
        if native and not had.ended:
            yield f"read: a reader of {who} was never told the end"
        if had.ended and not had.refused and stored is not None and had.text != stored:
            yield f"read: a reader of {who} ended with {had.text!r} where {stored!r} is stored"
        if had.ended:
            self.stage.saw("stream read to its end")

    def _restless(self) -> str:
        world, owner = self.world, self.world.owner()
        held = None if owner is None else [h.id[-6:] for h in owner.state.held.all()]
        tracked = None if owner is None else {t.id[-6:]: str(t.phase) for t in owner.state.tracked.values()}
        return (
            f"owner {owner and owner.state.setting.owner}, held {held}, tracked {tracked}, "
            f"unfinished {world.unfinished()}, callers {world.callers.left}, told {world.callers.all_told}"
        )

    def _first_results(self) -> dict[str, list[ResultRecord]]:
        found: defaultdict[str, list[ResultRecord]] = defaultdict(list)
        for _, record in self._of(TopicKind.RESULTS):
            found[record.id].append(record)
        return found

    def _ended_at(self) -> Iterator[tuple[str, int]]:
        seen: set[str] = set()
        for at_ms, record in self._of(TopicKind.RESULTS):
            if record.id not in seen:
                seen.add(record.id)
                yield record.id, at_ms

    def _requests(self) -> Iterator[tuple[str, tuple[str, int, int]]]:
        for log in self._request_logs():
            for offset in range(log.end):
                where = (log.place.topic, log.place.partition, offset)
                record = self._request_at(*where)
                if record is not None:
                    yield record.id, where

    def _deaths(self) -> dict[str, int]:
        """Boot -> when it was dead, by the log of reports and ticks alone: what its worker held may be run again then."""
        reported: dict[str, dict[int, int]] = {}
        ticks: defaultdict[int, set[int]] = defaultdict(set)
        found: dict[str, int] = {}
        for at_ms, record in self._of(TopicKind.WORKERS):
            if isinstance(record, Tick):
                ticks[record.epoch].add(record.number)
                for boot, before in reported.items():
                    if any(
                        len(seen) - before.get(epoch, 0) >= _TICKS_TO_DEATH for epoch, seen in ticks.items()
                    ):
                        found.setdefault(boot, at_ms)
            elif isinstance(record, Report) and record.boot not in found:
                reported[record.boot] = {epoch: len(seen) for epoch, seen in ticks.items()}
        return found

    def _undecodable(self) -> Iterator[int]:
        for log in self._request_logs():
            for offset in range(log.end):
                if self._request_at(log.place.topic, log.place.partition, offset) is None:
                    yield offset

    def _request_logs(self) -> list[Log]:
        topics = {place(TopicKind.REQUESTS, tier=tier).topic for tier in TIERS}
        return [log for where, log in self.stage.broker.logs.items() if where.topic in topics]

    def _request_at(self, topic: str, partition: int, offset: int) -> RequestRecord | None:
        entry = self.stage.broker.logs[Place(topic, partition)].entries[offset]
        header = None if entry.received is None else entry.received.header
        if header is None or not header.startswith(b'{"type"'):
            return None
        record: RequestRecord = decode(TopicKind.REQUESTS, header)
        return record

    def _of(self, kind: TopicKind) -> list[tuple[int, Any]]:
        """(virtual ms, record) of all of a topic, partition by partition in log order."""
        topic = place(kind).topic
        return [
            (entry.at_ms, decode(kind, entry.received.header))
            for where, log in self.stage.broker.logs.items()
            if where.topic == topic
            for entry in log.entries
            if entry.received is not None
        ]


def _offsets(record: Finished) -> Iterator[int]:
    yield from range(record.prefix)
    for block, bits in record.beyond.items():
        number = int.from_bytes(bits, "little")
        yield from (block + bit for bit in range(number.bit_length()) if number >> bit & 1)


def _text_of(body: object) -> str | None:
    """The stored text; None where there is none."""
    assert isinstance(body, bytes)
    try:
        choices = msgspec.json.decode(body)["choices"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return str(choices[0]["message"]["content"])
