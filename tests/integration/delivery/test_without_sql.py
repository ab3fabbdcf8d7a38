"""While SQL is locked, crashed or away, results wait in the log, and the group is kept."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text

from headrace.result_delivery.adapters.database import open_engine
from headrace.result_delivery.adapters.sql_store import SqlStore
from headrace.result_delivery.ports import StoreUnavailableError
from tests.integration.delivery.answered import answers, ids, outbox_is_empty, stored, told
from tests.support.delivery import FaultyBus, Member, produce
from tests.support.postgres import MISSING, PostgresServer, programs


@contextmanager
def locked(database: str) -> Iterator[None]:
    engine = open_engine(database)
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("LOCK TABLE positions IN ACCESS EXCLUSIVE MODE"))
        yield
    engine.dispose()


def test_a_locked_database_is_waited_for_while_the_group_is_kept(bus: FaultyBus, database: str) -> None:
    member = Member(bus, database)
    member.turn_until(lambda: member.troubles == [], "it is ready")
    with locked(database):
        produce(bus, answers(range(8)))
        member.turn_until(
            lambda: member.metric("commit_failures_total", reason="store") >= 2, "SQL fails twice"
        )
        assert member.troubles == ["SQL can't be used: results wait in the log"]
        assert told(bus) == []
    member.turn_until(lambda: len(stored(database)) == 8 and outbox_is_empty(database), "SQL is used again")
    assert sorted(told(bus)) == ids(range(8))
    assert member.troubles == []
    member.leave()


@pytest.mark.skipif(programs() is None, reason=MISSING)
def test_a_database_server_that_crashes_is_waited_for(bus: FaultyBus) -> None:
    found = programs()
    assert found is not None
    with PostgresServer(found) as server:
        database = server.new_database("results")
        member = Member(bus, database)
        produce(bus, answers(range(8)))
        member.turn_until(lambda: len(stored(database)) == 8 and outbox_is_empty(database), "it commits")
        server.kill()
        produce(bus, answers(range(8, 16)))
        member.turn_until(
            lambda: member.metric("commit_failures_total", reason="store") >= 2, "SQL fails twice"
        )
        assert member.troubles == ["SQL can't be used: results wait in the log"]
        server.start()
        member.turn_until(lambda: len(stored(database)) == 16 and outbox_is_empty(database), "it is back")
        assert sorted(told(bus)) == ids(range(16))
        assert member.troubles == []
        member.leave()


def test_partitions_that_come_while_sql_is_down_are_read_from_their_positions_later(
    bus: FaultyBus, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(bus, answers(range(8)))
    first = Member(bus, database, "one")
    first.turn_until(lambda: len(stored(database)) == 8 and outbox_is_empty(database), "a first life commits")
    first.leave()
    produce(bus, answers(range(8, 16)))
    real, failures = SqlStore.positions, iter([True] * 3)

    def flaky(store: SqlStore, places: object) -> object:
        if next(failures, False):
            raise StoreUnavailableError("down")
        return real(store, places)  # type: ignore[arg-type]

    monkeypatch.setattr(SqlStore, "positions", flaky)
    second = Member(bus, database, "two")
    second.turn_until(
        lambda: len(stored(database)) == 16 and outbox_is_empty(database), "the rest is committed"
    )
    assert second.metric("duplicates_suppressed_total") == 0
    assert sorted(told(bus)) == ids(range(16))
    second.leave()
