"""The store on SQLAlchemy Core, for SQLite and PostgreSQL. Implements ports.Store and ports.Transaction.

Invariant: every failure of the database, whatever it is, comes out as StoreUnavailableError after a rollback, so the service
has one way to mend them all: try again, and where a position has moved go on from there.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from sqlalchemy import Connection, Engine, bindparam, delete, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from headrace.bus.messages import Message, Place
from headrace.result_delivery.adapters import migrating
from headrace.result_delivery.adapters.tables import OUTBOX, POSITIONS, RESULTS
from headrace.result_delivery.decisions.what_to_commit import ResultRow
from headrace.result_delivery.decisions.what_to_tell import OutboxMessage
from headrace.result_delivery.ports import LostPartitionError, Move, OutboxRow, StoreUnavailableError

_MOVE = (
    update(POSITIONS)
    .where(
        POSITIONS.c.topic == bindparam("of_topic"),
        POSITIONS.c.partition == bindparam("of_partition"),
        POSITIONS.c.next_offset == bindparam("expected"),
    )
    .values(next_offset=bindparam("new"))
)
_FIRST = insert(POSITIONS)
_KNOWN = select(RESULTS.c.id).where(RESULTS.c.id.in_(bindparam("ids", expanding=True)))
_FORGET = delete(OUTBOX).where(OUTBOX.c.sequence.in_(bindparam("sequences", expanding=True)))
_ENQUEUE = insert(OUTBOX).returning(OUTBOX.c.sequence, sort_by_parameter_order=True)
_OUTBOX = (
    select(OUTBOX)
    .where(OUTBOX.c.sequence > bindparam("after"))
    .order_by(OUTBOX.c.sequence)
    .limit(bindparam("most"))
)
_HEADERS = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...])
_CHUNK = 1_000


class SqlTransaction:
    """As ports.Transaction, on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def move(self, moves: Sequence[Move]) -> None:
        """As Transaction.move; in one order for all members, so that they can't wait for each other in a ring."""
        lost = [move.place for move in sorted(moves, key=lambda move: move.place) if not self._moved(move)]
        if lost:
            raise LostPartitionError(lost)

    def _moved(self, move: Move) -> bool:
        topic, partition = move.place
        if move.expected is None:
            row = {"topic": topic, "partition": partition, "next_offset": move.next_offset}
            try:
                self._connection.execute(_FIRST, row)
            except IntegrityError:
                raise LostPartitionError([move.place]) from None
            return True
        names = {"of_topic": topic, "of_partition": partition}
        done = self._connection.execute(_MOVE, {**names, "expected": move.expected, "new": move.next_offset})
        return done.rowcount == 1

    def known(self, ids: Sequence[str]) -> set[str]:
        """As Transaction.known."""
        found: set[str] = set()
        for some in _chunks(ids):
            found.update(self._connection.scalars(_KNOWN, {"ids": some}))
        return found

    def insert(self, rows: Sequence[ResultRow]) -> None:
        """As Transaction.insert."""
        if rows:
            self._connection.execute(insert(RESULTS), [dict(row) for row in rows])

    def enqueue(self, messages: Sequence[OutboxMessage]) -> list[OutboxRow]:
        """As Transaction.enqueue."""
        if not messages:
            return []
        rows = [
            {
                "topic": message.topic,
                "partition": message.partition,
                "record_key": message.key,
                "headers": msgspec.msgpack.encode(message.headers),
                "value": message.value,
            }
            for message in messages
        ]
        sequences = self._connection.scalars(_ENQUEUE, rows).all()
        return [
            OutboxRow(sequence, Message(each.topic, each.partition, each.value, each.headers, each.key))
            for sequence, each in zip(sequences, messages, strict=True)
        ]

    def forget(self, sequences: Sequence[int]) -> None:
        """As Transaction.forget."""
        for some in _chunks(sequences):
            self._connection.execute(_FORGET, {"sequences": some})


class SqlStore:
    """As ports.Store. `migrate` false: `prepare` only checks."""

    def __init__(self, engine: Engine, *, migrate: bool = True) -> None:
        self._engine, self._migrate = engine, migrate

    def prepare(self) -> None:
        """As Store.prepare."""
        with self._connected() as connection:
            (migrating.migrate if self._migrate else migrating.check)(connection)

    def positions(self, places: Iterable[Place]) -> dict[Place, int]:
        """As Store.positions."""
        wanted = [tuple(place) for place in places]
        if not wanted:
            return {}
        asked = select(POSITIONS).where(tuple_(POSITIONS.c.topic, POSITIONS.c.partition).in_(wanted))
        with self._connected() as connection:
            rows = connection.execute(asked).all()
        return {Place(row.topic, row.partition): row.next_offset for row in rows}

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

    def close(self) -> None:
        """As Store.close."""
        self._engine.dispose()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A transaction on a connection. Parameters are kept out of messages: they hold answers."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise StoreUnavailableError(_without_parameters(error)) from None


def _without_parameters(error: SQLAlchemyError) -> str:
    origin = getattr(error, "orig", None)
    return f"{type(error).__name__}: {origin if origin is not None else type(error).__doc__}"[:300]


def _chunks(items: Sequence[object]) -> Iterator[Sequence[object]]:
    for begin in range(0, len(items), _CHUNK):
        yield items[begin : begin + _CHUNK]
