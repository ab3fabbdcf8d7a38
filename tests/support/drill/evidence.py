"""Completes a drill's history from outside: the topics, the database and the engines' journals. Called by the drill.

Invariant: it reads wire and tables as anybody could, and imports no decision of headrace.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.callers import text_of
from tests.support.checker.history import Death, Record, Row, Run, Table
from tests.support.drill.databases import Database

LOGS = (
    "requests.main.interactive", "requests.main.standard", "requests.main.batch", "results", "attempts.main", "dlq",
    "state.main", "control.main",
)  # fmt: skip
TICKS_TO_DEATH, BURIED_LATE_MS = 8, 2_000
"""A buried boot is told so at most once a second, and only after a report of it."""
RESULT_COLUMNS = (
    "SELECT id, status, attempt_epoch, attempt_sequence, accepted_ms, dispatched_ms, started_ms, finished_ms, "
    "committed_ms, body FROM results"
)
LEDGERS = ("ledger", "attempts")


def log_of(bootstrap: str, prefix: str, topic: str) -> list[Record]:
    """A whole topic (its name without the prefix), partition by partition: committed records only, and no barriers."""
    asking = {"bootstrap.servers": bootstrap, "group.id": "drill-judge", "enable.auto.commit": False}
    consumer = Consumer({**asking, "auto.offset.reset": "earliest", "enable.partition.eof": True})
    name = prefix + topic
    with closing(consumer):
        partitions = consumer.list_topics(name, timeout=20).topics[name].partitions
        places = [TopicPartition(name, partition, 0) for partition in partitions]
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=20)[1] for place in places}
        consumer.assign(places)
        return list(_up_to(consumer, topic, {number: end for number, end in ends.items() if end > 0}))


def _up_to(consumer: Consumer, topic: str, ends: dict[int, int]) -> Iterator[Record]:
    """A log that is written to all the time has no end; so read to the one noted, or to where there is nothing more."""
    while ends:
        message = consumer.poll(20)
        assert message is not None, f"the broker doesn't answer the judge: {topic} {ends}"
        error, number, offset = message.error(), message.partition() or 0, message.offset() or 0
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends.pop(number, None)
            continue
        if offset >= ends.get(number, offset + 1) - 1:
            ends.pop(number, None)
        header: Any = dict(message.headers() or ()).get("headrace")
        record = msgspec.json.decode(header) if header else {}
        if record.get("type") != "barrier":
            yield Record(
                topic=topic, partition=number, offset=offset, record=record, at_ms=message.timestamp()[1]
            )


def rows_of(database: Database) -> list[Row | Table]:
    """The results, and the ledger where there is one."""
    found: list[Row | Table] = [Table(name="results")]
    for row in database.rows(RESULT_COLUMNS):
        attempt = [row.pop("attempt_epoch"), row.pop("attempt_sequence")]
        text = text_of(row.pop("body") or b"{}")
        found.append(Row(table="results", row={**row, "attempt": attempt, "text": text}))
    for name in sorted(set(LEDGERS) & database.tables()):
        found.append(Table(name="ledger"))
        found += [Row(table="ledger", row=_ledger_row(row)) for row in database.rows(f"SELECT * FROM {name}")]  # noqa: S608
        break
    return found


def _ledger_row(row: dict[str, Any]) -> dict[str, Any]:
    """With `id` and `attempt`, whatever the columns are called; bytes are left out."""
    named = {name: value for name, value in row.items() if not isinstance(value, bytes)}
    request = named.get("request_id", named.get("id"))
    epoch, sequence = (
        named.get("attempt_epoch", named.get("epoch")),
        named.get("attempt_sequence", named.get("sequence")),
    )
    return {**named, "id": request, "attempt": [epoch, sequence]}


def runs_of(work: list[Record], workers: list[Record], journals: Iterable[Path]) -> list[Run]:
    """Every attempt that reached an engine, as far as the engine could note it or the worker reported it running.

    It begins, for the checker, when its command was written: whatever is its reason stood before that.
    """
    starts = starts_of(journals)
    reported = {
        tuple(held["attempt"])
        for each in workers
        if each.record["type"] == "report"
        for held in each.record.get("held", ())
        if held.get("running")
    }
    names = {
        each.record["boot"]: each.record["worker"] for each in workers if each.record["type"] == "report"
    }
    found = []
    for (epoch, sequence), each in _first_commands(work).items():
        request, boot = each.record["request"]["id"], each.record["boot"]
        times = starts[f"{request}-{epoch}.{sequence}"] or ((epoch, sequence) in reported)
        run = Run(
            id=request,
            attempt=(epoch, sequence),
            worker=names.get(boot),
            boot=boot,
            start_ms=each.at_ms,
            hop=each.record["request"].get("hop", 0),
        )
        found += [run] * times
    return found


def _first_commands(work: list[Record]) -> dict[tuple[int, int], Record]:
    """A wire may carry a command twice; workers take an attempt once, and that they do is what the journals say."""
    found: dict[tuple[int, int], Record] = {}
    for each in work:
        if each.record["type"] == "run":
            epoch, sequence = each.record["attempt"]
            found.setdefault((epoch, sequence), each)
    return found


def starts_of(journals: Iterable[Path]) -> Counter[str]:
    """How often the engines saw each `id-epoch.sequence`. What a killed engine was at isn't in its journal."""
    found: Counter[str] = Counter()
    for journal in journals:
        for line in journal.read_bytes().splitlines():
            headers = {name.lower(): value for name, value in msgspec.json.decode(line)["headers"]}
            found[headers["x-request-id"]] += 1
    return found


def deaths_of(workers: list[Record], work: list[Record]) -> list[Death]:
    """Each boot's death as the log tells it: 8 ticks of one epoch after its last report, a later boot, a goodbye."""
    book = _Book()
    for each in workers:
        book.read(each)
    names = {
        each.record["boot"]: each.record["worker"] for each in workers if each.record["type"] == "report"
    }
    for each in work:
        if each.record["type"] == "buried" and each.at_ms is not None:
            boot = each.record["boot"]
            book.die(names.get(boot, ""), boot, each.at_ms - BURIED_LATE_MS, "buried")
    return list(book.deaths.values())


class _Book:
    """The living, with the ticks that each has been silent for; and the dead."""

    def __init__(self) -> None:
        self.deaths: dict[str, Death] = {}
        self._latest: dict[str, str] = {}
        self._ticks: dict[str, defaultdict[int, set[int]]] = {}

    def read(self, each: Record) -> None:
        """The next record of `workers`."""
        kind, record, at_ms = each.record["type"], each.record, each.at_ms or 0
        if kind == "tick":
            self._tick(record["epoch"], record["number"], at_ms)
        elif kind == "gone":
            self.die(record["worker"], record["boot"], at_ms, "said goodbye")
        else:
            self._report(record["worker"], record["boot"], at_ms)

    def die(self, worker: str, boot: str, at_ms: int, why: str) -> None:
        """Once."""
        self.deaths.setdefault(boot, Death(worker=worker, boot=boot, at_ms=at_ms, why=why))
        self._ticks.pop(boot, None)

    def _report(self, worker: str, boot: str, at_ms: int) -> None:
        before = self._latest.get(worker, boot)
        if boot in self.deaths or boot < before:
            return
        if boot > before:
            self.die(worker, before, at_ms, "a later boot")
        self._latest[worker] = boot
        self._ticks[boot] = defaultdict(set)

    def _tick(self, epoch: int, number: int, at_ms: int) -> None:
        for worker, boot in list(self._latest.items()):
            if boot in self.deaths:
                continue
            ticks = self._ticks[boot][epoch]
            ticks.add(number)
            if len(ticks) >= TICKS_TO_DEATH:
                self.die(worker, boot, at_ms, f"{TICKS_TO_DEATH} ticks")
