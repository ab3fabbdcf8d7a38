"""The store on SQLAlchemy Core, for SQLite and PostgreSQL. Implements ports.Store.

Invariant: every failure of the database, whatever it is, comes out as StoreUnavailableError after a rollback, so the service
has one way to mend them all: try again, and where a position has moved go on from there.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec
from sqlalchemy import Connection, Engine, bindparam, delete, select, tuple_
from sqlalchemy.exc import SQLAlchemyError

from headrace.bus.messages import Message, Place
from headrace.result_delivery.adapters import migrating
from headrace.result_delivery.adapters.database import DatabaseFile
from headrace.result_delivery.adapters.sql_transaction import SqlTransaction
from headrace.result_delivery.adapters.tables import OUTBOX, POSITIONS, REQUESTS, RESULTS
from headrace.result_delivery.decisions.where_to_read import Stand
from headrace.result_delivery.ports import OutboxRow, StoreUnavailableError

_OUTBOX = (
    select(OUTBOX)
    .where(OUTBOX.c.sequence > bindparam("after"))
    .order_by(OUTBOX.c.sequence)
    .limit(bindparam("most"))
)
_OLD = (
    select(RESULTS.c.id)
    .where(RESULTS.c.committed_ms < bindparam("before"))
    .order_by(RESULTS.c.committed_ms)
    .limit(bindparam("most"))
)
_DELETE_REQUESTS = delete(REQUESTS).where(REQUESTS.c.id.in_(bindparam("ids", expanding=True)))
_DELETE_RESULTS = delete(RESULTS).where(RESULTS.c.id.in_(bindparam("ids", expanding=True)))
_HEADERS = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...])


class SqlStore:
    """As ports.Store. `migrate` false: `prepare` only checks."""

    def __init__(self, engine: Engine, *, migrate: bool = True) -> None:
        self._engine, self._migrate = engine, migrate
        self._file = DatabaseFile.of(engine)

    def prepare(self) -> None:
        """As Store.prepare."""
        with self._connected() as connection:
            (migrating.migrate if self._migrate else migrating.check)(connection)

    def positions(self, places: Iterable[Place]) -> dict[Place, Stand]:
        """As Store.positions."""
        wanted = [tuple(place) for place in places]
        if not wanted:
            return {}
        asked = select(POSITIONS).where(tuple_(POSITIONS.c.topic, POSITIONS.c.partition).in_(wanted))
        with self._connected() as connection:
            rows = connection.execute(asked).all()
        return {Place(row.topic, row.partition): Stand(row.next_offset, row.topic_id) for row in rows}

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """As Store.transaction."""
        with self._connected() as connection:
            yield SqlTransaction(connection)

    def outbox(self, after: int, limit: int) -> list[OutboxRow]:
        """As Store.outbox."""
        with self._connected() as connection:
            rows = connection.execute(_OUTBOX, {"after": after, "most": limit}).all()
        return [
            OutboxRow(
                row.sequence,
                Message(row.topic, row.partition, row.value, _HEADERS.decode(row.headers), row.record_key),
            )
            for row in rows
        ]

    def delete_ended(self, before_ms: int, limit: int) -> int:
        """As Store.delete_ended."""
        with self._connected() as connection:
            ids = list(connection.scalars(_OLD, {"before": before_ms, "most": limit}))
            if ids:
                connection.execute(_DELETE_REQUESTS, {"ids": ids})
                connection.execute(_DELETE_RESULTS, {"ids": ids})
        return len(ids)

    def close(self) -> None:
        """As Store.close."""
        self._engine.dispose()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A transaction on a connection. Parameters are kept out of messages: they hold answers."""
        try:
            self._file.check()
            with self._engine.begin() as connection:
                self._file.opened()
                yield connection
            self._file.check()
        except SQLAlchemyError as error:
            raise StoreUnavailableError(_without_parameters(error)) from None


def _without_parameters(error: SQLAlchemyError) -> str:
    origin = getattr(error, "orig", None)
    return f"{type(error).__name__}: {origin if origin is not None else type(error).__doc__}"[:300]
