"""One open SQL transaction, on SQLAlchemy Core, for SQLite and PostgreSQL. Implements ports.Transaction; made by SqlStore.

Invariant: one statement for each kind of row, however many rows; a position moves only from where, and of the topic of which,
the caller believes it to be.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, bindparam, delete, insert, or_, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from headrace.bus.messages import Message, Place
from headrace.result_delivery.adapters.tables import LEDGER, OUTBOX, POSITIONS, REQUESTS, RESULTS
from headrace.result_delivery.decisions.what_to_book import LedgerRow, RequestRow
from headrace.result_delivery.decisions.what_to_commit import ResultRow
from headrace.result_delivery.decisions.what_to_tell import OutboxMessage
from headrace.result_delivery.ports import LostPartitionError, Move, OutboxRow

_MOVE = (
    update(POSITIONS)
    .where(
        POSITIONS.c.topic == bindparam("of_topic"),
        POSITIONS.c.partition == bindparam("of_partition"),
        POSITIONS.c.next_offset == bindparam("expected"),
        or_(POSITIONS.c.topic_id.is_(None), POSITIONS.c.topic_id == bindparam("expected_id")),
    )
    .values(next_offset=bindparam("new"), topic_id=bindparam("new_id"))
)
_KNOWN = select(RESULTS.c.id).where(RESULTS.c.id.in_(bindparam("ids", expanding=True)))
_TENANTS = select(REQUESTS.c.id, REQUESTS.c.tenant).where(REQUESTS.c.id.in_(bindparam("ids", expanding=True)))
_FORGET = delete(OUTBOX).where(OUTBOX.c.sequence.in_(bindparam("sequences", expanding=True)))
_ENQUEUE = insert(OUTBOX).returning(OUTBOX.c.sequence, sort_by_parameter_order=True)
_CHUNK = 1_000


def _unless_there(table: Table) -> dict[str, Any]:
    """By dialect: an insert that leaves rows that are there as they are."""
    return {
        "sqlite": sqlite.insert(table).on_conflict_do_nothing(),
        "postgresql": postgresql.insert(table).on_conflict_do_nothing(),
    }


def _or_further(table: Table) -> dict[str, Any]:
    """By dialect: an insert that replaces a row of the same id which came through fewer pools."""
    found: dict[str, Any] = {}
    for name, made in (("sqlite", sqlite.insert(table)), ("postgresql", postgresql.insert(table))):
        given = {
            column.name: made.excluded[column.name] for column in table.columns if not column.primary_key
        }
        found[name] = made.on_conflict_do_update(
            index_elements=["id"], set_=given, where=table.c.hop < made.excluded.hop
        )
    return found


_FIRST, _NOTE, _BOOK = _unless_there(POSITIONS), _or_further(REQUESTS), _unless_there(LEDGER)


class SqlTransaction:
    """As ports.Transaction, on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._dialect = connection, connection.dialect.name

    def move(self, moves: Sequence[Move]) -> None:
        """As Transaction.move; in one order for all members, so that they can't wait for each other in a ring."""
        moves = sorted(moves, key=lambda move: move.place)
        begun = [move for move in moves if move.expected is not None]
        first = [move for move in moves if move.expected is None]
        moved = self._changed(_MOVE, [_step(move) for move in begun])
        made = self._changed(_FIRST[self._dialect], [_beginning(move) for move in first])
        if moved != len(begun) or made != len(first):
            raise LostPartitionError(self._elsewhere(moves))

    def _changed(self, statement: Any, rows: list[dict[str, Any]]) -> int:  # noqa: ANN401
        if not rows:
            return 0
        # without the option SQLAlchemy doesn't look how many rows an INSERT made
        result = self._connection.execute(statement, rows, execution_options={"preserve_rowcount": True})
        return result.rowcount

    def _elsewhere(self, moves: list[Move]) -> list[Place]:
        """Those that aren't where this transaction has put them: somebody else has moved them."""
        columns = (POSITIONS.c.topic, POSITIONS.c.partition, POSITIONS.c.next_offset)
        wanted = {(*move.place, move.new.next_offset): move.place for move in moves}
        asked = select(*columns).where(tuple_(*columns).in_(list(wanted)))
        there = {tuple(row) for row in self._connection.execute(asked)}
        return [place for row, place in wanted.items() if row not in there] or [each.place for each in moves]

    def known(self, ids: Sequence[str]) -> set[str]:
        """As Transaction.known."""
        found: set[str] = set()
        for some in _chunks(ids):
            found.update(self._connection.scalars(_KNOWN, {"ids": some}))
        return found

    def tenants(self, ids: Sequence[str]) -> dict[str, str]:
        """As Transaction.tenants."""
        found: dict[str, str] = {}
        for some in _chunks(ids):
            found |= {row.id: row.tenant for row in self._connection.execute(_TENANTS, {"ids": some})}
        return found

    def insert(self, rows: Sequence[ResultRow]) -> None:
        """As Transaction.insert."""
        if rows:
            self._connection.execute(insert(RESULTS), [dict(row) for row in rows])

    def note(self, rows: Sequence[RequestRow]) -> None:
        """As Transaction.note."""
        if rows:
            self._connection.execute(_NOTE[self._dialect], [dict(row) for row in rows])

    def book(self, rows: Sequence[LedgerRow]) -> None:
        """As Transaction.book."""
        if rows:
            self._connection.execute(_BOOK[self._dialect], [dict(row) for row in rows])

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


def _step(move: Move) -> dict[str, Any]:
    expected = move.expected
    return {
        "of_topic": move.place.topic,
        "of_partition": move.place.partition,
        "expected": None if expected is None else expected.next_offset,
        "expected_id": None if expected is None else expected.topic_id,
        "new": move.new.next_offset,
        "new_id": move.new.topic_id,
    }


def _beginning(move: Move) -> dict[str, Any]:
    topic, partition = move.place
    new = move.new
    return {"topic": topic, "partition": partition, "next_offset": new.next_offset, "topic_id": new.topic_id}


def _chunks(items: Sequence[object]) -> Iterator[Sequence[object]]:
    for begin in range(0, len(items), _CHUNK):
        yield items[begin : begin + _CHUNK]
