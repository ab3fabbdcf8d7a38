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
from headrace.contracts.commands import Run
from headrace.contracts.control import CancelRequest
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.reports import Report, Tick
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from tests.simulation.world.broker import Log
from tests.simulation.world.calls import Ran
from tests.simulation.world.journal import history_of
from tests.simulation.world.readers import NativeReader, Reader
from tests.simulation.world.stage import TIERS, place
from tests.support.checker import judging as checker

if TYPE_CHECKING:
    from tests.simulation.world.run import World

_LONG_AFTER_MS = 40_000
_NEVER = 10**12
_TICKS_TO_DEATH, _TICK_MS = 8, 490
_ATTEMPTS = 4
_COUNTED = ("failed: backend_error", "failed: backend_timeout")
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
        yield from self.attempts()
        yield from self.floors()
        yield from self.ticks()
        yield from self.finished()
        yield from self.cancels()
        yield from self.moves()
        yield from self.read()
        yield from self.told()
        yield from self.rest()
        texts = {request_id: _text_of(row["body"]) for request_id, row in self.rows.items()}
        history = history_of(self.world, {k: v for k, v in texts.items() if v is not None}, self.deaths)
        yield from (f"checker: {violation}" for violation in checker.judge(history))

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
        """C and D: never twice at a time, never again without a cause: its worker's death, by the log, or a failure."""
        by_request: defaultdict[str, list[Ran]] = defaultdict(list)
        for run in sorted((r for w in self.world.workers for r in w.runs), key=lambda run: run.began_ms):
            by_request[run.request].append(run)
        for request_id, runs in by_request.items():
            for before, run in pairwise(runs):
                if before.disturbed or self.deaths.get(before.boot, _NEVER) <= run.began_ms:
                    continue
                if (_NEVER if before.ended_ms is None else before.ended_ms) > run.began_ms:
                    yield f"C: {request_id[-6:]} ran twice at a time, as {before.attempt} and {run.attempt}"
                elif before.why in ("done", "aborted: superseded", "aborted: caller", "abandoned"):
                    yield f"D: {request_id[-6:]} ran again as {run.attempt}; {before.attempt} was {before.why}"
            failed = [run for run in runs if run.why in _COUNTED]
            if len(failed) > _ATTEMPTS:
                yield f"D: {request_id[-6:]} failed {len(failed)} times, and may only {_ATTEMPTS}"

    def attempts(self) -> Iterator[str]:
        """What each `run` may be: an attempt at one request, in time, to a boot that has answered its sender."""
        of: dict[tuple[int, int], str] = {}
        answers = self._answers()
        for at_ms, record in self._of(TopicKind.WORK):
            if not isinstance(record, Run):
                continue
            request = record.request
            if of.setdefault(record.attempt, request.id) != request.id:
                yield f"attempts: {record.attempt} is an attempt at two requests"
            expired_ms = request.start_by_ms
            if expired_ms is not None and record.attempts == 1 and (record.dispatched_ms or 0) >= expired_ms:
                yield f"attempts: {request.id[-6:]} was released after it had expired"
            if answers.get((record.boot, record.epoch), _NEVER) > at_ms:
                yield f"attempts: {record.attempt} was released to a boot that hadn't answered"

    def floors(self) -> Iterator[str]:
        """A worker starts nothing of an owner whose successor had committed when it registered."""
        owned = [
            (at, record.epoch) for at, record in self._of(TopicKind.STATE) if isinstance(record, Ownership)
        ]
        registered: dict[str, int] = {}
        for at_ms, record in self._of(TopicKind.WORKERS):
            if isinstance(record, Report):
                registered.setdefault(record.boot, at_ms)
        for run in (run for worker in self.world.workers for run in worker.runs):
            floor = max((epoch for at, epoch in owned if at < registered.get(run.boot, 0)), default=0)
            if run.epoch < floor:
                yield f"floor: {run.attempt} of epoch {run.epoch} began at a boot that came in epoch {floor}"

    def ticks(self) -> Iterator[str]:
        """An owner's ticks come one at a time, the next half a second after the last was read back."""
        last: dict[int, tuple[int, int]] = {}
        for at_ms, record in self._of(TopicKind.WORKERS):
            if isinstance(record, Tick):
                number, before_ms = last.get(record.epoch, (-1, -_NEVER))
                if record.number > number:
                    last[record.epoch] = record.number, at_ms
                    if at_ms - before_ms < _TICK_MS:
                        yield f"ticks: two of epoch {record.epoch} within {at_ms - before_ms} ms"

    def _answers(self) -> dict[tuple[str, int], int]:
        """(boot, epoch) -> when it first reported that epoch."""
        found: dict[tuple[str, int], int] = {}
        for at_ms, record in self._of(TopicKind.WORKERS):
            if isinstance(record, Report):
                found.setdefault((record.boot, record.epoch), at_ms)
        return found

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
        ran: defaultdict[str, int] = defaultdict(int)
        for run in (run for worker in self.world.workers for run in worker.runs):
            if not run.disturbed:
                ran[run.request] = max(ran[run.request], run.ended_ms or self.stage.now_ms)
        for asked in self.world.callers.asked.values():
            until_ms = ran[asked.record.id]
            if asked.cancelled_ms is not None and until_ms > asked.cancelled_ms + _LONG_AFTER_MS:
                yield f"F: {asked.record.id[-6:]} was cancelled at {asked.cancelled_ms} ms and ran until {until_ms}"
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

    def told(self) -> Iterator[str]:
        """Every result is told to other services, and its event stands in the log."""
        topic = place(TopicKind.EVENTS).topic
        told = {
            dict(entry.received.headers)["ce_id"].decode()
            for where, log in self.stage.broker.logs.items()
            if where.topic == topic
            for entry in log.entries
            if entry.received is not None
        }
        for request_id, row in self.rows.items():
            if f"{request_id}-{row['status']}" not in told:
                yield f"told: the end of {request_id[-6:]} has no event"

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
            f"unfinished {world.unfinished()}, undelivered {world.undelivered()}, "
            f"callers {world.callers.left}, told {world.callers.all_told}"
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
