"""Whatever fails, in whatever order: one result a request, the first in the log, and everybody is told that one.

The ledger has one row for each attempt, with the numbers of its first record; each request is noted once.
Each seed is a history of two members and a zombie on one log, with deaths, hand-overs, SQL that fails before or after it has
committed, and sends that nobody confirms. A seed that fails is kept.
"""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.bus.messages import Message
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.topics import TopicKind
from headrace.result_delivery import service
from headrace.result_delivery.adapters.sql_store import SqlStore
from headrace.result_delivery.adapters.sql_transaction import SqlTransaction
from headrace.result_delivery.ports import StoreUnavailableError
from tests.support.delivery import FaultyBus, Member, apply, produce, records_in, rows, topic
from tests.support.results import (
    attempt,
    attempt_message,
    request,
    request_id,
    request_message,
    result,
    result_message,
)

RESULTS, REPLIES, DLQ = topic(TopicKind.RESULTS), topic(TopicKind.REPLIES), topic(TopicKind.DLQ)
ATTEMPTS, REQUESTS = topic(TopicKind.ATTEMPTS), topic(TopicKind.REQUESTS)
READ = (RESULTS, ATTEMPTS, REQUESTS)
PARTITIONS = 3


class FlakySql:
    """SQL that fails when told to, before or after the commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plan: list[str] = []
        real_transaction, real_positions, flaky = SqlStore.transaction, SqlStore.positions, self

        @contextmanager
        def transaction(store: SqlStore) -> Iterator[SqlTransaction]:
            fate = flaky.plan.pop() if flaky.plan else ""
            with real_transaction(store) as opened:
                yield opened
                if fate == "before":
                    raise StoreUnavailableError("failed before the commit")
            if fate == "after":
                raise StoreUnavailableError("committed, but nobody was told")

        def positions(store: SqlStore, places: object) -> object:
            if flaky.plan and flaky.plan.pop():
                raise StoreUnavailableError("down")
            return real_positions(store, places)  # type: ignore[arg-type]

        monkeypatch.setattr(SqlStore, "transaction", transaction)
        monkeypatch.setattr(SqlStore, "positions", positions)


class History:
    """One seed's log and members."""

    def __init__(self, seed: int, database: str, sql: FlakySql) -> None:
        self.dice, self.database, self.sql = random.Random(seed), database, sql  # noqa: S311 not a secret
        self.bus = FaultyBus()
        apply(self.bus)
        self.elsewhere = FaultyBus(self.bus)
        self.elsewhere.group = "zombies"
        self.members = [self.born(self.bus), self.born(self.bus), self.born(self.elsewhere)]
        self.first: dict[str, int] = {}
        self.booked: dict[tuple[str, int], int] = {}
        self.noted: set[str] = set()
        self.garbage = 0

    def born(self, bus: FaultyBus) -> Member:
        member = Member(bus, self.database, f"m{self.dice.random()}")
        member.loop.turn()
        return member

    def write(self) -> None:
        messages = []
        for _ in range(self.dice.randrange(1, 12)):
            number, sequence = self.dice.randrange(60), self.dice.randrange(1, 99)
            partition = number % PARTITIONS
            messages.append(self.record(number, partition, sequence))
        if self.dice.random() < 0.1:
            where = self.dice.choice(READ), self.dice.randrange(PARTITIONS)
            self.garbage += where[0] == RESULTS
            messages.append(Message(*where, b"raw", ((HEADER, b"!"),)))
        produce(self.bus, messages)

    def record(self, number: int, partition: int, sequence: int) -> Message:
        named = request_id(number, partition)
        match self.dice.choice(["result", "result", "attempt", "request"]):
            case "result":
                self.first.setdefault(named, sequence)
                return result_message(RESULTS, result(number, partition=partition, attempt=sequence))
            case "attempt":
                sequence, charge = sequence % 3, self.dice.randrange(100)
                self.booked.setdefault((named, sequence), charge)
                record = attempt(number, partition=partition, sequence=sequence, charge=charge)
                return attempt_message(ATTEMPTS, record)
            case _:
                self.noted.add(named)
                return request_message(REQUESTS, request(number, partition=partition))

    def step(self) -> None:
        match self.dice.choice(["write", "write", "turn", "turn", "turn", "sql", "send", "die", "leave"]):
            case "write":
                self.write()
            case "sql":
                self.sql.plan = self.dice.choices(["before", "after", ""], k=self.dice.randrange(1, 4))
            case "send":
                self.bus.lost = {REPLIES: self.dice.randrange(4), DLQ: self.dice.randrange(2)}
            case "die" | "leave" as way:
                self.replace(self.dice.randrange(3), dies=way == "die")
            case _:
                self.dice.choice(self.members).loop.turn()

    def replace(self, index: int, *, dies: bool) -> None:
        member = self.members[index]
        if dies and member.loop._delivery is not None:
            member.die()
        else:
            member.leave()
        self.members[index] = self.born(self.elsewhere if index == 2 else self.bus)

    def all_is_told(self) -> bool:
        for member in self.members:
            member.loop.turn()
        ends = sum(row[0] for row in rows(self.database, "SELECT next_offset FROM positions"))
        waiting = rows(self.database, "SELECT count(*) FROM outbox") != [(0,)]
        stuck = any(member.holds or member.troubles for member in self.members)
        return not waiting and not stuck and ends == sum(len(records_in(self.bus, name)) for name in READ)


@pytest.mark.parametrize("seed", range(int(os.environ.get("SEEDS", "6"))))
def test_one_result_whatever_fails(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_IDLE", timedelta(milliseconds=1))
    monkeypatch.setattr(service, "_SOON", timedelta(milliseconds=1))
    sql = FlakySql(monkeypatch)
    history = History(seed, f"sqlite:///{tmp_path / 'results.db'}", sql)
    for _ in range(70):
        history.step()
    sql.plan, history.bus.lost = [], {}
    history.members[0].turn_until(history.all_is_told, "everything is committed and told")
    stored = dict(rows(history.database, "SELECT id, attempt_sequence FROM results"))
    assert stored == history.first
    ledger = rows(history.database, "SELECT id, attempt_sequence, charge FROM ledger")
    assert sorted(ledger) == sorted((*key, charge) for key, charge in history.booked.items())
    assert {row[0] for row in rows(history.database, "SELECT id FROM requests")} == history.noted
    finals = [decode(TopicKind.REPLIES, record.header) for record in records_in(history.bus, REPLIES)]
    assert {final.id: final.attempt.sequence for final in finals} == stored
    assert all(final.attempt.sequence == stored[final.id] for final in finals)
    letters = [decode(TopicKind.DLQ, record.header) for record in records_in(history.bus, DLQ)]
    assert len({(each.topic, each.partition, each.offset) for each in letters}) == history.garbage
    for member in history.members:
        member.leave()
