"""Scheduler and result-delivery together, with no history at all: logs are trimmed behind them, and nobody misses any."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.bus.messages import Place
from headrace.bus.ports import START, Bus
from headrace.contracts.control import UndrainWorker
from headrace.contracts.topics import TopicKind
from headrace.result_delivery import publishing, trimming
from tests.support.delivery import Member, rows
from tests.support.eventually import eventually
from tests.support.scheduler.live import FAST, Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import policy

SOON = timedelta(milliseconds=200)
TIMINGS = dataclasses.replace(FAST, tick=timedelta(milliseconds=500))
"""Looking at logs takes time, in which the worker can't report."""


@pytest.fixture
def pool(bus: Bus, prefix: str) -> Iterator[Pool]:
    """A pool whose logs keep no history."""
    usual = policy()
    made = Pool(bus, prefix, replace(usual, topics=replace(usual.topics, history=0)))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "PERIOD", SOON)
    monkeypatch.setattr(publishing, "PERIOD", SOON)


def places(pool: Pool) -> list[Place]:
    """All that is trimmed, but for `control`."""
    partitions = range(pool.policy.topics.tenant_partitions)
    kinds = (TopicKind.RESULTS, TopicKind.ATTEMPTS)
    found = [pool.place(kind, number) for kind in kinds for number in partitions]
    return found + [
        pool.place(TopicKind.REQUESTS, number, tier) for tier in pool.policy.tiers for number in partitions
    ]


class Look:
    """Looks at logs without reading them."""

    def __init__(self, pool: Pool) -> None:
        self._pool, self._reader, self._ends = pool, pool.bus.loop_reader("look"), pool.bus.ends("look")

    def begins(self, where: list[Place]) -> dict[Place, int]:
        """Where these logs begin now."""
        self._pool.assign(self._reader, dict.fromkeys(where, START))
        return {place: self._reader.position(place) for place in where}

    def all_gone(self, where: list[Place]) -> bool:
        """Whether nothing is left of them."""
        ends = eventually(self._ends.ask(where).answer, "the ends of logs")
        return self.begins(where) == ends

    def close(self) -> None:
        """Let go."""
        self._reader.close()
        self._ends.close()


def test_logs_are_trimmed_behind_both_and_a_takeover_misses_nothing(pool: Pool, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'results.db'}"
    worker, first = LiveWorker(pool), pool.scheduler("one", timings=TIMINGS)
    ids, where = pool.submit(20), places(pool)
    turn_until(pool, [first.turn, worker.turn], lambda: len(pool.results_read()) == 20)
    control, looked = pool.place(TopicKind.CONTROL), Look(pool)
    pool.tell(UndrainWorker(worker="nobody"))
    turn_until(
        pool, [first.turn, worker.turn], lambda: looked.begins([control]) == {control: 2}
    )  # behind a barrier
    assert set(looked.begins(where).values()) == {0}, (
        "result-delivery is down: nothing that it needs is trimmed"
    )

    member = Member(pool.bus, database, "one", pool.prefix, policy=pool.policy)
    both = [first.turn, worker.turn, member.loop.turn]
    turn_until(pool, both, lambda: looked.all_gone(where))
    barriers = pool.policy.topics.tenant_partitions  # those of the gate, in `attempts`
    assert sum(looked.begins(where).values()) == 60 + barriers

    worker.holding = True
    ids += pool.submit(5)
    turn_until(pool, both, lambda: sum(worker.ran.values()) == 24)
    del first, both  # killed: no farewell, no last checkpoint
    second = pool.scheduler("two", timings=TIMINGS)
    others = [second.turn, worker.turn, member.loop.turn]
    turn_until(pool, others, lambda: 2 in {getattr(each, "epoch", 0) for each in worker.commands})
    worker.holding = False
    turn_until(pool, others, lambda: looked.all_gone(where))
    turn_until(pool, others, lambda: len(rows(database, "SELECT id FROM results")) == 25)
    assert worker.ran == Counter(ids)
    assert sorted(row[0] for row in rows(database, "SELECT id FROM requests")) == sorted(ids)
    assert sorted(row[0] for row in rows(database, "SELECT id FROM ledger")) == sorted(ids)

    member.leave()
    later = Member(pool.bus, database, "two", pool.prefix, policy=pool.policy)
    ids += pool.submit(3)
    turn_until(
        pool,
        [second.turn, worker.turn, later.loop.turn],
        lambda: len(rows(database, "SELECT id FROM results")) == 28,
    )
    assert later.troubles == []
    assert worker.ran == Counter(ids)
    turn_until(pool, [second.turn, later.loop.turn], lambda: looked.begins([control])[control] > 2)
    later.leave()
    looked.close()
    second.stop()
    worker.close()
