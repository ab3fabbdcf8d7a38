"""The drill's database: SQLite in a file, or a PostgreSQL of its own; locked, killed, and read in the end. Called by stage.

Invariant: reading it changes nothing and waits for nobody.
"""

import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg.rows import dict_row

from tests.support.postgres import PostgresServer

MOST_DEADLOCKS = 5


class Database(Protocol):
    """What a drill does to it."""

    @property
    def url(self) -> str | None:
        """What the services are told; None: the stack's own file."""

    def lock(self) -> None:
        """Nobody else may write, until `unlock`."""

    def unlock(self) -> None:
        """As before."""

    def kill(self) -> None:
        """It is gone at once, until `start`."""

    def start(self) -> None:
        """It answers again when this returns."""

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What a query says."""

    def tables(self) -> set[str]:
        """The names of its tables."""


class SqliteFile:
    """A file, which can't be killed: a kill is another lock."""

    url = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: sqlite3.Connection | None = None
        self._turn = threading.Lock()

    def lock(self) -> None:
        """An exclusive transaction that stays open."""
        with self._turn:
            held = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
            held.execute("BEGIN EXCLUSIVE")
            self._held = held

    def unlock(self) -> None:
        """Ends it."""
        with self._turn:
            if self._held is not None:
                self._held.execute("ROLLBACK")
                self._held.close()
                self._held = None

    kill, start = lock, unlock

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What a query says; the file is opened for it alone."""
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=10)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query)]

    def tables(self) -> set[str]:
        """The names of its tables."""
        return {row["name"] for row in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")}


class PostgresDatabase:
    """One database of a server that the drill started."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self._server, self._name = server, name
        self.url: str | None = server.new_database(name)
        self._held: psycopg.Connection[Any] | None = None

    def lock(self) -> None:
        """Every table locked against everybody. Its tables are locked one after the other, and who writes takes them in
        another order: whom of the two the server ends is chance, so that it may be us.
        """
        for _ in range(MOST_DEADLOCKS):
            held = psycopg.connect(self._server.conninfo(self._name))
            try:
                held.execute("LOCK TABLE results, positions, outbox IN ACCESS EXCLUSIVE MODE")
            except psycopg.errors.DeadlockDetected:
                held.close()
            else:
                self._held = held
                return
        raise TimeoutError(f"the tables couldn't be locked, after {MOST_DEADLOCKS} deadlocks")

    def unlock(self) -> None:
        """Ends the transaction that locks."""
        if self._held is not None:
            with suppress(psycopg.Error):  # the server may have been killed meanwhile
                self._held.rollback()
            self._held.close()
            self._held = None

    def kill(self) -> None:
        """SIGKILL: it ends without a goodbye, and recovers from its log when it starts again."""
        self._server.kill()

    def start(self) -> None:
        """Starts the server again."""
        self._server.start()

    def rows(self, query: str) -> list[dict[str, Any]]:
        """What a query says."""
        with psycopg.connect(self._server.conninfo(self._name), row_factory=dict_row) as database:
            return database.execute(query.encode()).fetchall()

    def tables(self) -> set[str]:
        """The names of its tables."""
        found = self.rows("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'")
        return {row["name"] for row in found}
