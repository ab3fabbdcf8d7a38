"""Judges a drill from outside: what callers were told, the topics, the database, the logs. Called by drill.

Imports no decision of headrace: it reads wire and tables as anybody could. Each rule returns sentences, none when it held.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.cli.stack.processes import Stack
from tests.support.stacks import rows_of

TIERS = ("interactive", "standard", "batch")
SHORT, MOST_LINES = 5, 3_000


@dataclass
class Evidence:
    """What the drill saw. `accepted`: id -> text of the prompt; `cancelled`: id -> Unix time of the 202; `broken`: what
    didn't come back.
    """

    accepted: dict[str, str] = field(default_factory=dict)
    asked_to_cancel: set[str] = field(default_factory=set)
    cancelled: dict[str, float] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    blows: list[tuple[float, str, str, float]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Read:
    """One record: where it stands, and its decoded `headrace` header."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    record: dict[str, Any]


def log_of(stack: Stack, topic: str) -> list[Read]:
    """A whole topic (its name without the prefix), committed records only, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": stack.bootstrap,
            "group.id": "drill-judge",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    name = stack.prefix + topic
    with closing(consumer):
        partitions = consumer.list_topics(name, timeout=10).topics[name].partitions
        places = [TopicPartition(name, partition, 0) for partition in partitions]
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=10)[1] for place in places}
        consumer.assign(places)
        return list(_up_to(consumer, {number: end for number, end in ends.items() if end > 0}))


def _up_to(consumer: Consumer, ends: dict[int, int]) -> Iterator[Read]:
    """A log that is written to all the time has no end; so read to the one noted, or to where there is nothing more."""
    while ends:
        message = consumer.poll(10)
        assert message is not None, f"the broker doesn't answer the judge: {ends}"
        error, number, offset = message.error(), message.partition() or 0, message.offset() or 0
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends.pop(number, None)
            continue
        if offset >= ends.get(number, offset + 1) - 1:
            ends.pop(number, None)
        header: Any = dict(message.headers() or ()).get("headrace")
        record = msgspec.json.decode(header) if header else {}
        yield Read(message.topic() or "", number, offset, message.timestamp()[1], record)


def judge(stack: Stack, evidence: Evidence, journal: Path) -> list[str]:
    """Everything that is wrong."""
    logs = {
        name: log_of(stack, name)
        for name in ("results", "attempts.main", "work.main", "workers.main", "state.main")
    }
    logs["requests"] = [read for tier in TIERS for read in log_of(stack, f"requests.main.{tier}")]
    starts = _engine_starts(journal)
    _tell(stack, evidence, logs, starts)
    return [
        *evidence.broken,
        *_ended_once(stack, evidence, logs["results"]),
        *_runs(logs, starts),
        *_checkpoint(logs),
        *_at_rest(log_of(stack, "queue-state"), logs["workers.main"]),
        *_cancelled(evidence, logs),
        *_logs(stack.folder / "logs"),
        *(f"a dead letter: {read.record}" for read in log_of(stack, "dlq")),
    ]


def _tell(stack: Stack, evidence: Evidence, logs: dict[str, list[Read]], starts: Counter[str]) -> None:
    epochs = {read.record["epoch"] for read in logs["state.main"] if read.record["type"] == "ownership"}
    rows = Counter(row[3] for row in rows_of(stack))
    print(  # noqa: T201
        f"accepted {len(evidence.accepted)}, refused {Counter(evidence.refused).most_common(4)}, rows {dict(rows)}, "
        f"epochs {sorted(epochs)}, runs {sum(starts.values())}, rerun {len(_reruns(logs))}, "
        f"results {len(logs['results'])}, blows {len(evidence.blows)}"
    )


def _some(what: str, found: Iterable[object]) -> list[str]:
    found = list(found)
    return [f"{what}: {len(found)}, such as {found[:SHORT]}"] if found else []


def _ended_once(stack: Stack, evidence: Evidence, results: list[Read]) -> list[str]:
    rows = {
        row[0]: row[1:]
        for row in rows_of(stack, "SELECT id, status, attempt_epoch, attempt_sequence FROM results")
    }
    first: dict[str, tuple[object, ...]] = {}
    for read in results:
        first.setdefault(read.record["id"], (read.record["status"], *read.record["attempt"]))
    return [
        *_some("accepted and without a result", evidence.accepted.keys() - rows.keys()),
        *_some("a row that isn't the first record", [i for i, row in rows.items() if first.get(i) != row]),
        *_some("a result without a row", first.keys() - rows.keys()),
        *_some(
            "ended badly", [(i, row) for i, row in rows.items() if row[0] not in {"succeeded", "cancelled"}]
        ),
        *_some(
            "cancelled though nobody asked",
            [
                i
                for i, row in rows.items()
                if row[0] == "cancelled" and i in evidence.accepted.keys() - evidence.asked_to_cancel
            ],
        ),
    ]


def _engine_starts(journal: Path) -> Counter[str]:
    """How often the engine saw each `id-epoch.sequence`."""
    found: Counter[str] = Counter()
    for line in journal.read_bytes().splitlines():
        headers = {name.lower(): value for name, value in msgspec.json.decode(line)["headers"]}
        found[headers["x-request-id"]] += 1
    return found


def _reruns(logs: dict[str, list[Read]]) -> dict[str, list[dict[str, Any]]]:
    runs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for read in sorted(logs["work.main"], key=lambda read: (read.at_ms, read.offset)):
        if read.record["type"] == "run":
            runs[read.record["request"]["id"]].append(read.record)
    return {request: found for request, found in runs.items() if len(found) > 1}


def _runs(logs: dict[str, list[Read]], starts: Counter[str]) -> list[str]:
    """No request was sent out again unless its attempt failed, its worker's boot ended, or its command came to nothing."""
    failed = {
        tuple(read.record["attempt"])
        for read in logs["attempts.main"]
        if read.record["verdict"] == "retry_at"
    }
    started = {key.rsplit("-", 1)[1] for key in starts}
    ended = _ended_boots(logs)
    causeless = [
        (request, run["attempt"], run["boot"])
        for request, runs in _reruns(logs).items()
        for run in runs[:-1]
        if tuple(run["attempt"]) not in failed
        and run["boot"] not in ended
        and ".".join(map(str, run["attempt"])) in started
    ]
    twice = [key for key, count in starts.items() if count > 1]
    return [*_some("run again without a reason", causeless), *_some("one attempt started twice", twice)]


def _ended_boots(logs: dict[str, list[Read]]) -> set[str]:
    last: dict[str, str] = {}
    boots: set[str] = set()
    ended = {read.record["boot"] for read in logs["work.main"] if read.record["type"] == "buried"}
    for read in logs["workers.main"]:
        if read.record["type"] == "report":
            worker, boot = read.record["worker"], read.record["boot"]
            last[worker] = max(last.get(worker, ""), boot)
            boots.add(boot)
    return ended | (boots - set(last.values()))


def _checkpoint(logs: dict[str, list[Read]]) -> list[str]:
    """Finished in the last checkpoint implies a terminal record, and in the end all are finished."""
    terminal = {read.record["id"] for read in logs["results"]}
    last = {
        (read.record["topic"], read.record["partition"]): read.record
        for read in logs["state.main"]
        if read.record["type"] == "finished"
    }
    done = {
        (r.topic, r.partition, r.offset)
        for r in logs["requests"]
        if _is_finished(last.get((r.topic, r.partition)), r.offset)
    }
    at = {(read.topic, read.partition, read.offset): read.record["id"] for read in logs["requests"]}
    epochs = [read.record["epoch"] for read in logs["state.main"] if read.record["type"] == "ownership"]
    return [
        *_some(
            "finished in a checkpoint without a result",
            [at[place] for place in done if at[place] not in terminal],
        ),
        *_some(
            "not finished in the last checkpoint",
            [(i, place) for place, i in at.items() if place not in done],
        ),
        *(["an old owner's checkpoint stands after a new owner's"] if epochs != sorted(epochs) else []),
    ]


def _is_finished(record: dict[str, Any] | None, offset: int) -> bool:
    if record is None or offset < record["prefix"]:
        return record is not None
    block = offset - offset % 4096
    bitmap = msgspec.json.decode(
        msgspec.json.encode(record.get("beyond", {}).get(str(block), "")), type=bytes
    )
    bit = offset - block
    return bit // 8 < len(bitmap) and bool(bitmap[bit // 8] >> bit % 8 & 1)


def _at_rest(states: list[Read], workers: list[Read]) -> list[str]:
    last_state = {read.record["tier"]: read.record for read in states if read.record}
    last_report = {read.record["worker"]: read.record for read in workers if read.record["type"] == "report"}
    slots = [s for s in last_state.values() if s.get("held") or s.get("depth") or s.get("paused_partitions")]
    idle = [r for r in last_report.values() if r.get("held") or not r.get("healthy", True)]
    limits = {state.get("limit") for state in last_state.values()}
    return [
        *_some("a queue isn't empty after the load", slots),
        *_some("a worker isn't idle after the load", idle),
        *([] if limits == {10} else [f"the pool's limit is {limits} in the end"]),
    ]


def _cancelled(evidence: Evidence, logs: dict[str, list[Read]]) -> list[str]:
    late = [
        (request, round(read.at_ms / 1000 - evidence.cancelled[request], 1))
        for read in logs["work.main"]
        if read.record["type"] == "run" and (request := read.record["request"]["id"]) in evidence.cancelled
        and read.at_ms / 1000 > evidence.cancelled[request] + 20
    ]  # fmt: skip
    return _some("started long after its cancel", late)


def _logs(folder: Path) -> list[str]:
    wrong, loud = [], []
    for path in sorted(folder.glob("*.log")):
        lines = path.read_text(errors="replace").splitlines()
        told = [
            line
            for line in lines
            if '"level":"error"' in line or '"level":"critical"' in line or "Traceback" in line
        ]
        wrong += [f"{path.stem}: {line[:600]}" for line in told[:SHORT]]
        if len(lines) > MOST_LINES:
            loud.append((path.stem, len(lines)))
    return [*_some("an error in a log", wrong), *_some("a flooded log", loud)]
