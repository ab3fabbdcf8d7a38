"""What result-delivery needs of SQL. Implemented by adapters.sql_store; called by the service and its parts alone.

Invariant: positions, results, requests, ledger and outbox change in one transaction or not at all, and a position moves only
from where the caller believes it to be.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from headrace.bus.messages import Message, Place
from headrace.contracts.mistakes import CannotRunError
from headrace.result_delivery.decisions.what_to_book import LedgerRow, RequestRow
from headrace.result_delivery.decisions.what_to_commit import ResultRow
from headrace.result_delivery.decisions.what_to_tell import OutboxMessage
from headrace.result_delivery.decisions.where_to_read import Stand


class StoreUnavailableError(Exception):
    """SQL is down, locked, or failed. Whether a commit that was under way took place is unknown: positions tell."""


class DatabaseGoneError(CannotRunError):
    """The database's file was deleted or replaced under us; the message says what to do."""


class WrongSchemaError(Exception):
    """The database's tables aren't what this version works with; the message says what to do."""


class LostPartitionError(Exception):
    """Somebody else has moved these positions: nothing of the transaction was kept."""

    def __init__(self, places: Sequence[Place]) -> None:
        super().__init__("positions were moved by another member: " + ", ".join(map(str, places)))
        self.places = tuple(places)


@dataclass(frozen=True, slots=True)
class Move:
    """A position's step from `expected` (None: there is no row yet) to where it stands then."""

    place: Place
    expected: Stand | None
    new: Stand


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A committed message that nobody has confirmed yet. `sequence` is never used twice."""

    sequence: int
    message: Message


class Transaction(Protocol):
    """One open SQL transaction. Every method raises StoreUnavailableError."""

    def move(self, moves: Sequence[Move]) -> None:
        """Moves positions; first of all, since it locks them. Raises LostPartitionError."""
        ...

    def known(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that have a result already."""
        ...

    def tenants(self, ids: Sequence[str]) -> dict[str, str]:
        """Whose requests these are, as far as they are noted."""
        ...

    def insert(self, rows: Sequence[ResultRow]) -> None:
        """Adds results."""
        ...

    def note(self, rows: Sequence[RequestRow]) -> None:
        """Adds accepted requests, but for those that are there."""
        ...

    def book(self, rows: Sequence[LedgerRow]) -> None:
        """Adds finished attempts, but for those that are there."""
        ...

    def enqueue(self, messages: Sequence[OutboxMessage]) -> list[OutboxRow]:
        """Adds messages to the outbox; what to send after the commit, in the same order."""
        ...

    def forget(self, sequences: Sequence[int]) -> None:
        """Deletes messages that were confirmed."""
        ...


class Store(Protocol):
    """The database. Every method raises StoreUnavailableError, and DatabaseGoneError."""

    def prepare(self) -> None:
        """Brings the tables to this version, or checks that they are. Raises WrongSchemaError."""
        ...

    def positions(self, places: Iterable[Place]) -> dict[Place, Stand]:
        """Those places that have a row."""
        ...

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commits when the block ends, rolls back when it raises."""
        ...

    def outbox(self, after: int, limit: int) -> list[OutboxRow]:
        """Up to `limit` messages with a greater sequence, in their order."""
        ...

    def delete_ended(self, before_ms: int, limit: int) -> int:
        """Deletes up to `limit` results that were committed before this Unix ms, with their requests; how many."""
        ...

    def close(self) -> None:
        """Lets go of the database."""
        ...
