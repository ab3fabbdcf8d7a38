"""What really happened in a run, from its logs and its database: what its judges go by. Made by world.judge.

Invariant: it asks no product code what happened, and calls nothing right or wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bus.messages import Place, Received
from headrace.contracts.codec import decode
from headrace.contracts.control import CancelRequest
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.reports import Report, Tick
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from tests.simulation.world.broker import Log
from tests.simulation.world.stage import TIERS
from tests.support.scheduler.pure import NAMES, POOL

if TYPE_CHECKING:
    from tests.simulation.world.run import World

_TICKS_TO_DEATH = 8


class Evidence:
    """One run's. `rows`: what is stored, by request; `results`: its terminal records; `deaths`: boot -> when it was dead by
    the log; `firsts`: by pool, where each request stands first, as (topic, partition, offset); `passed_on`: when those that
    went to another pool stood in its log.
    """

    def __init__(self, world: World) -> None:
        self.world, self.stage = world, world.stage
        self.rows = world.database.results()
        self.results = self._first_results()
        self.deaths = self._deaths()
        self.firsts: dict[str, dict[str, tuple[str, int, int]]] = {pool: {} for pool in world.pools}
        for pool, of_pool in self.firsts.items():
            for request_id, where in self._requests(pool):
                of_pool.setdefault(request_id, where)
        self.passed_on = self._passed_on()

    def of(self, kind: TopicKind, pool: str = POOL) -> list[tuple[int, Any]]:
        """(virtual ms, record) of all of a topic but barriers, partition by partition in log order."""
        topic = NAMES.of(kind, pool=pool)
        return [
            (entry.at_ms, decode(kind, entry.received.header))
            for where, log in self.stage.broker.logs.items()
            if where.topic == topic
            for entry in log.entries
            if entry.received is not None and not _is_barrier(entry.received)
        ]

    def ended_at(self) -> Iterator[tuple[str, int]]:
        """(request, when its first terminal record was written)."""
        seen: set[str] = set()
        for at_ms, record in self.of(TopicKind.RESULTS):
            if record.id not in seen:
                seen.add(record.id)
                yield record.id, at_ms

    def done_in(self, pool: str) -> dict[str, int]:
        """Request -> when that pool had nothing more to do for it: it has ended, or stands in the other pool's log."""
        ended = dict(self.ended_at())
        if pool != POOL:
            return ended
        return ended | {mine: min(at, ended.get(mine, at)) for mine, at in self.passed_on.items()}

    def cancelled_where_it_is(self) -> dict[str, int]:
        """Request -> when the pool that had it last could know of its cancel: the first pool's owner passes it on, and
        while there is none it waits.
        """
        asked = self.world.callers.asked.values()
        found = {each.record.id: each.cancelled_ms for each in asked if each.cancelled_ms is not None}
        here = {mine: at_ms for mine, at_ms in found.items() if mine not in self.passed_on}
        for pool in self.world.pools[1:]:
            for at_ms, record in self.of(TopicKind.CONTROL, pool):
                if isinstance(record, CancelRequest) and record.id in found:
                    here.setdefault(record.id, at_ms)
        return here

    def request_at(self, topic: str, partition: int, offset: int) -> RequestRecord | None:
        """The request that stands there; None: what stands there is none."""
        entry = self.stage.broker.logs[Place(topic, partition)].entries[offset]
        header = None if entry.received is None else entry.received.header
        if entry.received is None or header is None or _is_barrier(entry.received):
            return None
        if not header.startswith(b'{"type"'):
            return None
        record: RequestRecord = decode(TopicKind.REQUESTS, header)
        return record

    def barriers(self, pool: str) -> Iterator[tuple[str, int, int]]:
        """Where among the requests an owner only asked for the end of the log."""
        for log in self._request_logs(pool):
            for offset, entry in enumerate(log.entries):
                if entry.received is not None and _is_barrier(entry.received):
                    yield log.place.topic, log.place.partition, offset

    def undecodable(self) -> Iterator[int]:
        """The offsets in the first pool's logs at which neither a request nor a barrier stands."""
        barriers = set(self.barriers(POOL))
        for log in self._request_logs(POOL):
            for offset in range(log.end):
                where = (log.place.topic, log.place.partition, offset)
                if self.request_at(*where) is None and where not in barriers:
                    yield offset

    def _first_results(self) -> dict[str, list[ResultRecord]]:
        found: defaultdict[str, list[ResultRecord]] = defaultdict(list)
        for _, record in self.of(TopicKind.RESULTS):
            found[record.id].append(record)
        return found

    def _requests(self, pool: str) -> Iterator[tuple[str, tuple[str, int, int]]]:
        for log in self._request_logs(pool):
            for offset in range(log.end):
                where = (log.place.topic, log.place.partition, offset)
                record = self.request_at(*where)
                if record is not None:
                    yield record.id, where

    def _passed_on(self) -> dict[str, int]:
        found: dict[str, int] = {}
        mine = {log.place for log in self._request_logs(POOL)}
        for where, log in self.stage.broker.logs.items():
            if ".requests." in f".{where.topic}" and where not in mine:
                for offset, entry in enumerate(log.entries):
                    record = self.request_at(*where, offset)
                    if record is not None:
                        found.setdefault(record.id, entry.at_ms)
        return found

    def _deaths(self) -> dict[str, int]:
        """Boot -> when it was dead, by the log of reports and ticks alone: what its worker held may be run again then."""
        return {boot: at for pool in self.world.pools for boot, at in self._deaths_in(pool).items()}

    def _deaths_in(self, pool: str) -> dict[str, int]:
        reported: dict[str, dict[int, int]] = {}
        ticks: defaultdict[int, set[int]] = defaultdict(set)
        found: dict[str, int] = {}
        for at_ms, record in self.of(TopicKind.WORKERS, pool):
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

    def _request_logs(self, pool: str) -> list[Log]:
        topics = {NAMES.of(TopicKind.REQUESTS, pool=pool, tier=tier) for tier in TIERS}
        return [log for where, log in self.stage.broker.logs.items() if where.topic in topics]


def _is_barrier(received: Received) -> bool:
    return (received.header or b"").startswith(b'{"type":"barrier"')


def text_of(body: object) -> str | None:
    """The text of a stored answer; None where there is none."""
    assert isinstance(body, bytes)
    try:
        choices = msgspec.json.decode(body)["choices"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
    return str(choices[0]["message"]["content"])
