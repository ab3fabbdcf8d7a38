"""The simulated database: result-delivery's own SqlStore on SQLite in memory, which may be down or lose its answer.

Invariant: the tables outlive every process; one run's rows are gone before the next begins.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, delete
from sqlalchemy.pool import StaticPool

from headrace.bus.messages import Place
from headrace.result_delivery.adapters.sql_store import SqlStore
from headrace.result_delivery.adapters.tables import METADATA
from headrace.result_delivery.decisions.where_to_read import Stand
from headrace.result_delivery.ports import OutboxRow, StoreUnavailableError, Transaction
from tests.simulation.world.process import Process
from tests.simulation.world.stage import Stage

_ENGINES: list[Engine] = []


def _engine() -> Engine:
    """One for all runs of this process: making its tables takes longer than a run's work on them."""
    if not _ENGINES:
        engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
        METADATA.create_all(engine)
        _ENGINES.append(engine)
    return _ENGINES[0]


class Database:
    """What all members share. `down_until_ms`: till then nobody is served."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._engine = stage, _engine()
        self.store = SqlStore(self._engine)
        self.down_until_ms = 0
        self._stood: dict[Place, int] = {}
        self.breaks_off = False
        """Whether the next transaction breaks off before its commit: for written schedules."""
        with self._engine.begin() as connection:
            for table in METADATA.sorted_tables:
                connection.execute(delete(table))

    @property
    def is_down(self) -> bool:
        """Whether nobody is served now."""
        return self._stage.now_ms < self.down_until_ms

    def results_of(self, ids: Iterable[str]) -> dict[str, dict[str, object]]:
        """The rows of these ids, where there are any. In plain SQL: it is asked far more often than anything else."""
        wanted = sorted(ids)
        marks = ",".join("?" * len(wanted))
        return self._rows(f"SELECT * FROM results WHERE id IN ({marks})", wanted)  # noqa: S608 - marks alone

    def ledger(self) -> list[dict[str, object]]:
        """All rows of the ledger, as the checker reads them."""
        rows = self._all("SELECT * FROM ledger", [])
        return [{**row, "attempt": [row["attempt_epoch"], row["attempt_sequence"]]} for row in rows]

    def has_unsent(self) -> bool:
        """Whether a message waits to be sent, or to be forgotten."""
        return bool(self._all("SELECT sequence FROM outbox LIMIT 1", []))

    def stands(self) -> dict[Place, int]:
        """All positions."""
        rows = self._all("SELECT topic, partition, next_offset FROM positions", [])
        return {Place(str(r["topic"]), int(str(r["partition"]))): int(str(r["next_offset"])) for r in rows}

    def look_at_positions(self) -> None:
        """They only grow; told after each commit."""
        stands = self.stands()
        for place, stood in self._stood.items():
            if stands.get(place, -1) < stood:
                self._stage.broken.append(f"delivery: the position of {place} fell from {stood}")
        self._stood = stands

    def results(self) -> dict[str, dict[str, object]]:
        """All rows of `results` by id."""
        return self._rows("SELECT * FROM results", [])

    def _rows(self, question: str, values: list[str]) -> dict[str, dict[str, object]]:
        return {str(row["id"]): row for row in self._all(question, values)}

    def _all(self, question: str, values: list[str]) -> list[dict[str, object]]:
        connection = self._engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute(question, values)
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            cursor.close()
        finally:
            connection.close()
        return rows


class SimStore:
    """As result_delivery.ports.Store, for one member."""

    def __init__(self, process: Process, database: Database) -> None:
        self._process, self._database = process, database

    def prepare(self) -> None:
        """As Store.prepare."""

    def positions(self, places: Iterable[Place]) -> dict[Place, Stand]:
        """As Store.positions."""
        self._reach()
        return self._database.store.positions(places)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """As Store.transaction; the answer to a commit may be lost, and its process may die before or after it."""
        stage = self._process.stage
        self._reach()
        with self._database.store.transaction() as transaction:
            yield transaction
            self._reach()
            if self._database.breaks_off:
                self._database.breaks_off = False
                raise StoreUnavailableError("the connection broke off")
        self._database.look_at_positions()
        self._process.step()
        if stage.faulty and stage.rng.random() < 0.02:
            stage.saw("lost answer of a commit")
            raise StoreUnavailableError("the answer was lost")

    def outbox(self, after: int, limit: int) -> list[OutboxRow]:
        """As Store.outbox."""
        self._reach()
        return self._database.store.outbox(after, limit)

    def delete_ended(self, before_ms: int, limit: int) -> int:
        """As Store.delete_ended."""
        self._reach()
        return self._database.store.delete_ended(before_ms, limit)

    def close(self) -> None:
        """As Store.close."""

    def _reach(self) -> None:
        self._process.step()
        if self._database.is_down:
            raise StoreUnavailableError("the database is down")
