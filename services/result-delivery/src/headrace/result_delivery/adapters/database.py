"""The database that a URL names, with the durability that a committed result needs. Called by the wiring.

Invariant: on SQLite a commit is on the disk when it returns (WAL, synchronous=FULL), and a transaction takes the write lock
when it begins, so that it never fails half-way for want of it.
"""

from datetime import timedelta
from pathlib import Path
from sqlite3 import Connection as SqliteConnection

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry

from headrace.contracts.durations import ms
from headrace.result_delivery.ports import DatabaseGoneError

PATIENCE = timedelta(seconds=2)
"""How long one statement may wait for a lock: shorter than a loop may stand still."""

_DRIVERS = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


class DatabaseFile:
    """The file of an SQLite database, watched: one that was deleted or replaced would be written to for nobody."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None

    @classmethod
    def of(cls, engine: Engine) -> "DatabaseFile":
        """That of this engine; PostgreSQL has none."""
        return cls(engine.url.database if engine.dialect.name == "sqlite" else None)

    def opened(self) -> None:
        """A connection has it open now; the first one made it, where it wasn't there."""
        if self._path is not None and self._identity is None:
            self._identity = self._now()

    def check(self) -> None:
        """Raises DatabaseGoneError when it isn't the file that was opened."""
        if self._identity is not None and (found := self._now()) != self._identity:
            what = "was deleted" if found is None else "is another one than when it was opened"
            raise DatabaseGoneError(
                f"the database's file {self._path} {what}: stop all services that use it, bring the file back "
                f"(or a copy of it), and start them again"
            )

    def _now(self) -> tuple[int, int] | None:
        try:
            found = Path(self._path or "").stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


class DatabaseUrlError(ValueError):
    """The URL names no database that headrace can use; the message says what it may be."""


def driver_url(url: str) -> URL:
    """The URL with the driver that headrace comes with. Raises DatabaseUrlError; never shows a password."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise DatabaseUrlError(
            "the database isn't a URL: write sqlite:///folder/file.db or postgresql://user:password@host/name"
        ) from None
    driver = _DRIVERS.get(parsed.drivername.partition("+")[0])
    if driver is None:
        raise DatabaseUrlError(f"the database is of kind {parsed.drivername!r}: use sqlite or postgresql")
    if driver.startswith("sqlite"):
        _check_file(parsed.database)
    return parsed.set(drivername=driver)


def open_engine(url: str) -> Engine:
    """An engine; connects when it is first used. Raises DatabaseUrlError."""
    parsed = driver_url(url)
    if parsed.drivername.startswith("sqlite"):
        return _sqlite(parsed)
    wait_ms = ms(PATIENCE)
    options = f"-c lock_timeout={wait_ms} -c statement_timeout={5 * wait_ms}"
    return create_engine(
        parsed,
        pool_size=1,
        max_overflow=1,
        connect_args={
            "connect_timeout": int(PATIENCE.total_seconds()),
            "application_name": "headrace-result-delivery",
            "options": options,
        },
    )


def _check_file(database: str | None) -> None:
    if not database or database == ":memory:" or database.startswith("file:"):
        raise DatabaseUrlError("results must outlive the process: name a file, such as sqlite:///headrace.db")
    folder = Path(database).absolute().parent
    if not folder.is_dir():
        raise DatabaseUrlError(f"the folder of the database doesn't exist: create {folder}")


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, pool_size=1, max_overflow=1, connect_args={"check_same_thread": False})
    wait_ms = ms(PATIENCE)

    def connected(connection: SqliteConnection, _entry: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # the driver's own BEGIN comes too late, and not before DDL
        for pragma in (
            f"busy_timeout={wait_ms}",
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    def began(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", began)
    return engine
