"""A history: what happened in one run, as plain lines in the order in which they were noted. The checker's only input.

Written by drills, simulations and tests; saved as JSON lines, one an entry, so that a run can be judged again.
Invariant: nothing here knows the product; instants are whole milliseconds of one clock (Unix or virtual), or None.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

AttemptKey = tuple[int, int]


class Accepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="accepted"):
    """The client's journal: a 202 (or an open stream with an id) arrived for this prompt."""

    id: str
    tenant: str = ""
    prompt: str = ""
    at_ms: int | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="seen"):
    """The client's journal: one thing that a reader of a request was sent, in the order of arrival.

    `event`: `status` (with `status`), `text` (with `text`), `restart`, `end` (with `status`): the texts since the last
    restart are the answer; or `broken`: the connection broke off, and what this reader sees next comes after it resumed where
    it was. `reader` tells readers of one id apart. Who only polls sees `status`, never `end`.
    """

    id: str
    event: str
    reader: str = "reader"
    text: str = ""
    status: str | None = None
    at_ms: int | None = None


class CancelAsked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="cancel_asked"):
    """A caller asked for a cancel (or hung up where that cancels); `kept`: it was told that this is kept, at `at_ms`."""

    id: str
    kept: bool = False
    at_ms: int | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="record"):
    """One record of a log. `topic` without the prefix, such as `results` or `attempts.main`; `record` is its plain header."""

    topic: str
    partition: int
    offset: int
    record: dict[str, Any]
    at_ms: int | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="run"):
    """An engine worked on an attempt. `start_ms`: when the attempt was released or begun, whichever is known. `hop`: its
    request had been passed on to another pool so often; each pool counts attempts by itself.
    """

    id: str
    attempt: AttemptKey
    hop: int = 0
    worker: str | None = None
    boot: str | None = None
    engine: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None


class Death(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="death"):
    """A worker's boot died, or was declared dead in the log. Without `boot`, whatever boot `worker` had then."""

    worker: str
    boot: str | None = None
    at_ms: int | None = None
    why: str = ""


class Failed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="failed"):
    """An attempt failed, as known from elsewhere than the log of attempts."""

    id: str
    attempt: AttemptKey
    at_ms: int | None = None


class Table(msgspec.Struct, frozen=True, kw_only=True, tag="table"):
    """A table of the database was read: without rows of it, it was empty. A table that isn't named wasn't looked at."""

    name: str


class Row(msgspec.Struct, frozen=True, kw_only=True, tag="row"):
    """A row. `results`: id, status, attempt, text (None: none is stored; left out: not looked at). `ledger`: id, attempt, and
    what it counts.
    """

    table: str
    row: dict[str, Any]


Entry = Accepted | Seen | CancelAsked | Record | Run | Death | Failed | Table | Row
E = TypeVar("E", Accepted, Seen, CancelAsked, Record, Run, Death, Failed, Table, Row)

RESULTS, LEDGER = "results", "ledger"


class History:
    """Entries in the order in which they were noted."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = list(entries)

    def add(self, *entries: Entry) -> None:
        """Notes what happened next."""
        self.entries += entries

    def of(self, kind: type[E]) -> list[E]:
        """All entries of a kind, in order."""
        return [entry for entry in self.entries if isinstance(entry, kind)]

    def records(self, topic: str) -> list[Record]:
        """The records of `topic`, or of `topic.{pool}…`, in log order, each place once; but an owner's barriers, which tell
        nothing of any request.
        """
        places = {
            (each.topic, each.partition, each.offset): each
            for each in self.of(Record)
            if (each.topic == topic or each.topic.startswith(topic + "."))
            and each.record.get("type") != "barrier"
        }
        return [places[place] for place in sorted(places)]

    def rows(self, table: str) -> list[dict[str, Any]] | None:
        """The rows of a table; None when nobody looked at it."""
        rows = [each.row for each in self.of(Row) if each.table == table]
        looked_at = rows or any(each.name == table for each in self.of(Table))
        return rows if looked_at else None


def save(history: History, path: Path) -> None:
    """Writes it as JSON lines."""
    path.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in history.entries))


def load(path: Path) -> History:
    """Reads what `save` wrote. Raises msgspec.DecodeError with the line's own complaint."""
    decoder = msgspec.json.Decoder(Entry)
    return History(decoder.decode(line) for line in path.read_bytes().splitlines() if line.strip())
