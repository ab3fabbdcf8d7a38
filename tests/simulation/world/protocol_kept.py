"""Was the protocol kept? By what stands in the logs and the database, and by what really ran. Asked by world.judge.

Properties A to F are those of the protocol's design; the letters stand in the sentences. Invariant: it asks no product code
what is right.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from headrace.contracts.checkpoints import Finished, Ownership, Positions
from headrace.contracts.codec import decode
from headrace.contracts.commands import Run
from headrace.contracts.control import CancelRequest
from headrace.contracts.lifecycle import Status
from headrace.contracts.reports import Report, Tick
from headrace.contracts.topics import TopicKind
from tests.simulation.world.calls import PROMPT, Ran, count_of
from tests.simulation.world.evidence import Evidence, text_of
from tests.simulation.world.operators import fits
from tests.support.scheduler.pure import POOL, place

_LONG_AFTER_MS = 40_000
_NEVER = 10**12
_TICKS_MS = {1: 240, 7: 3_240}
"""How far a tick is at least from the one before, and from the seventh before: eight make a boot dead."""
_ATTEMPTS = 4
_COUNTED = ("failed: backend_error", "failed: backend_timeout")


def protocol_kept(facts: Evidence) -> Iterator[str]:
    """Every violation, property by property."""
    yield from _answered(facts)
    yield from _runs(facts)
    yield from _cancels(facts)
    yield from _orders(facts)
    yield from _counted(facts)
    for pool in facts.world.pools:
        for rule in (_owners, _attempts, _floors, _ticks, _finished):
            yield from rule(facts, pool)


def _answered(facts: Evidence) -> Iterator[str]:
    """A: one result each, and it is the first terminal record."""
    for request_id in facts.firsts[POOL]:
        if request_id not in facts.rows:
            yield f"A: {request_id[-6:]} has no committed result"
    for request_id, row in facts.rows.items():
        first = facts.results[request_id][0]
        if (row["attempt_epoch"], row["attempt_sequence"]) != tuple(first.attempt):
            yield f"A: the result of {request_id[-6:]} isn't its first terminal record"
        facts.stage.saw("suppressed second result", len(facts.results[request_id]) - 1)
    for asked in facts.world.callers.asked.values():
        if asked.accepted_ms is not None and asked.record.id not in facts.firsts[POOL]:
            yield f"A: {asked.record.id[-6:]} was accepted and is nowhere"


def _owners(facts: Evidence, pool: str) -> Iterator[str]:
    """B: owners follow each other, each with an epoch of its own."""
    owned: dict[int, str] = {}
    last = 0
    for _, record in facts.of(TopicKind.STATE, pool):
        if isinstance(record, Ownership):
            if record.epoch < last:
                yield f"B: a checkpoint of epoch {record.epoch} after one of {last}"
            if owned.setdefault(record.epoch, record.owner) != record.owner:
                yield f"B: epoch {record.epoch} has two owners"
            last = max(last, record.epoch)


def _runs(facts: Evidence) -> Iterator[str]:
    """C and D: never twice at a time, never again without a cause: its worker's death, by the log, or a failure."""
    by_request: defaultdict[str, list[Ran]] = defaultdict(list)
    for run in sorted((r for w in facts.world.workers for r in w.runs), key=lambda run: run.began_ms):
        by_request[run.request].append(run)
    for request_id, runs in by_request.items():
        for before, run in pairwise(runs):
            if before.disturbed or facts.deaths.get(before.boot, _NEVER) <= run.began_ms:
                continue
            if (_NEVER if before.ended_ms is None else before.ended_ms) > run.began_ms:
                yield f"C: {request_id[-6:]} ran twice at a time, as {before.attempt} and {run.attempt}"
            elif before.why in ("done", "aborted: superseded", "aborted: caller", "abandoned"):
                yield f"D: {request_id[-6:]} ran again as {run.attempt}; {before.attempt} was {before.why}"
        failed = [run for run in runs if run.why in _COUNTED]
        if len(failed) > _ATTEMPTS:
            yield f"D: {request_id[-6:]} failed {len(failed)} times, and may only {_ATTEMPTS}"


def _attempts(facts: Evidence, pool: str) -> Iterator[str]:
    """What each `run` may be: an attempt at one request, in time, to a boot that has answered its sender."""
    of: dict[tuple[int, int], str] = {}
    answers = _answers(facts, pool)
    for at_ms, record in facts.of(TopicKind.WORK, pool):
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


def _floors(facts: Evidence, pool: str) -> Iterator[str]:
    """A worker starts nothing of an owner whose successor had committed when it registered."""
    states = facts.of(TopicKind.STATE, pool)
    owned = [(at, record.epoch) for at, record in states if isinstance(record, Ownership)]
    registered: dict[str, int] = {}
    for at_ms, record in facts.of(TopicKind.WORKERS, pool):
        if isinstance(record, Report):
            registered.setdefault(record.boot, at_ms)
    for run in (run for each in facts.world.workers if each.pool == pool for run in each.runs):
        floor = max((epoch for at, epoch in owned if at < registered.get(run.boot, 0)), default=0)
        if run.epoch < floor:
            yield f"floor: {run.attempt} of epoch {run.epoch} began at a boot that came in epoch {floor}"


def _ticks(facts: Evidence, pool: str) -> Iterator[str]:
    """An owner's ticks come one at a time, none within a quarter of a second of the last, and no eight in a burst."""
    seen: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for at_ms, record in facts.of(TopicKind.WORKERS, pool):
        if isinstance(record, Tick):
            ticks = seen[record.epoch]
            if record.number in ticks:
                continue
            ticks[record.number] = at_ms
            for apart, least_ms in _TICKS_MS.items():
                within_ms = at_ms - ticks.get(record.number - apart, -_NEVER)
                if within_ms < least_ms:
                    yield f"ticks: {apart + 1} of epoch {record.epoch} within {within_ms} ms"


def _answers(facts: Evidence, pool: str) -> dict[tuple[str, int], int]:
    """(boot, epoch) -> when it first reported that epoch."""
    found: dict[tuple[str, int], int] = {}
    for at_ms, record in facts.of(TopicKind.WORKERS, pool):
        if isinstance(record, Report):
            found.setdefault((record.boot, record.epoch), at_ms)
    return found


def _finished(facts: Evidence, pool: str) -> Iterator[str]:
    """E: what a checkpoint calls finished has a terminal record before it, or stands in another pool's log."""
    ended = facts.done_in(pool)
    letters: dict[tuple[str, int, int], int] = {}
    for at_ms, letter in facts.of(TopicKind.DLQ):
        letters.setdefault((letter.topic, letter.partition, letter.offset), at_ms)
    told = set(facts.barriers(pool))
    for at_ms, record in facts.of(TopicKind.STATE, pool):
        if not isinstance(record, Finished):
            continue
        for offset in _offsets(record):
            where = (record.topic, record.partition, offset)
            if where not in told:
                told.add(where)
                request = facts.request_at(*where)
                if request is not None and facts.firsts[pool][request.id] != where:
                    continue  # written twice: only the first needs an end
                ended_ms = letters.get(where) if request is None else ended.get(request.id)
                if ended_ms is None or ended_ms > at_ms:
                    yield f"E: {where} is finished at {at_ms} ms without a terminal record"


def _cancels(facts: Evidence) -> Iterator[str]:
    """F: nothing starts long after its cancel, and no checkpoint passes a cancel that isn't applied."""
    ran: defaultdict[str, int] = defaultdict(int)
    for run in (run for worker in facts.world.workers for run in worker.runs):
        if not run.disturbed:
            ran[run.request] = max(ran[run.request], run.ended_ms or facts.stage.now_ms)
    for asked in facts.world.callers.asked.values():
        until_ms = ran[asked.record.id]
        if asked.cancelled_ms is not None and until_ms > asked.cancelled_ms + _LONG_AFTER_MS:
            yield f"F: {asked.record.id[-6:]} was cancelled at {asked.cancelled_ms} ms and ran until {until_ms}"
    ended = dict(facts.ended_at())
    passed = [(r.control, at) for at, r in facts.of(TopicKind.STATE) if isinstance(r, Positions)]
    log = facts.stage.broker.logs[place(TopicKind.CONTROL)]
    for offset, entry in enumerate(log.entries):
        record = None if entry.received is None else decode(TopicKind.CONTROL, entry.received.header)
        if isinstance(record, CancelRequest) and record.id in ended and record.id not in facts.passed_on:
            first = next((at for control, at in passed if control > offset), None)
            if first is not None and first < ended[record.id]:
                yield f"F: a checkpoint passed the cancel of {record.id[-6:]} before it ended"


def _orders(facts: Evidence) -> Iterator[str]:
    """F: nothing of what an operator has cancelled starts long after that, where it was meant."""
    began: defaultdict[str, int] = defaultdict(int)
    for run in (run for each in facts.world.workers if each.pool == POOL for run in each.runs):
        began[run.request] = max(began[run.request], run.began_ms)
    for at_ms, selection in facts.world.operator.cancels:
        if selection.stage is not None:
            continue  # what ran then isn't meant, and may be tried again
        for request_id, (topic, partition, offset) in facts.firsts[POOL].items():
            record = facts.request_at(topic, partition, offset)
            stood = offset < (selection.stands_before or {}).get(topic, {}).get(partition, 0)
            meant = stood and record is not None and fits(selection, record.tenant, record.tier)
            if meant and began[request_id] > at_ms + _LONG_AFTER_MS:
                yield f"F: {request_id[-6:]} was cancelled by an operator at {at_ms} ms and began long after"


def _counted(facts: Evidence) -> Iterator[str]:
    """What a caller is told to have used is what is stored, each token once, however often it was stopped."""
    for request_id, (first, *_) in facts.results.items():
        row = facts.rows.get(request_id)
        text = None if row is None or first.status is not Status.SUCCEEDED else text_of(row["body"])
        if text is None:
            continue
        told, used = (first.usage.prompt_tokens, first.usage.completion_tokens), (PROMPT, count_of(text))
        if told != used:
            yield f"counts: {request_id[-6:]} is told to have used {told} tokens, and it was {used}"


def _offsets(record: Finished) -> Iterator[int]:
    yield from range(record.prefix)
    for block, bits in record.beyond.items():
        number = int.from_bytes(bits, "little")
        yield from (block + bit for bit in range(number.bit_length()) if number >> bit & 1)
