"""The table of topics: name, partitions, retention, sizes, who writes, who reads. The one place to change any of these.

Called by `headrace topics`, by every service's start-up check, and by whoever names a topic.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache

from headrace.contracts.durations import ms

DEFAULT_PREFIX = "headrace."
MAX_INLINE_BYTES = 32 * 1024
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
_HEADER_ROOM = 64 * 1024


class TopicKind(StrEnum):
    """What a topic holds; with pool and tier filled in it is the topic's name after the prefix."""

    REQUESTS = "requests.{pool}.{tier}"
    RESULTS = "results"
    ATTEMPTS = "attempts.{pool}"
    WORK = "work.{pool}"
    WORKERS = "workers.{pool}"
    STATE = "state.{pool}"
    CONTROL = "control.{pool}"
    REPLIES = "replies"
    QUEUE_STATE = "queue-state"
    INBOX = "inbox"
    EVENTS = "events"
    DLQ = "dlq"
    TENANTS = "tenants"


class PartitionedBy(StrEnum):
    """What decides a record's partition, and so how many there are."""

    TENANT = "tenant"
    LANE = "lane"
    GATEWAY = "gateway"
    ONE = "one"


class Service(StrEnum):
    """Who writes and reads; access rules are rendered from this table."""

    INGEST = "ingest"
    SCHEDULER = "scheduler"
    WORKER = "inference-worker"
    DELIVERY = "result-delivery"
    BATCH = "batch"
    CONSOLE = "console"
    CLI = "cli"
    OTHERS = "other services"


_S = Service


@dataclass(frozen=True, slots=True)
class TopicRule:
    """One row. `retention` None: never expires by time. `max_message_bytes` bounds key, value and headers together."""

    kind: TopicKind
    partitioned_by: PartitionedBy
    written_by: frozenset[Service]
    read_by: frozenset[Service]
    retention: timedelta | None
    compacted: bool
    max_message_bytes: int
    holds: str


def _row(
    kind: TopicKind,
    by: PartitionedBy,
    writers: set[Service],
    readers: set[Service],
    holds: str,
    *,
    retention: timedelta | None = None,
    compacted: bool = False,
    room: int = _HEADER_ROOM,
) -> TopicRule:
    size = MAX_PAYLOAD_BYTES + room
    return TopicRule(kind, by, frozenset(writers), frozenset(readers), retention, compacted, size, holds)


_HOUR, _WEEK = timedelta(hours=1), timedelta(days=7)
_SHORT_SEGMENT, _LONG_SEGMENT = timedelta(minutes=10), _WEEK
_K, _BY = TopicKind, PartitionedBy
_ROWS = (
    _row(
        _K.REQUESTS, _BY.TENANT, {_S.INGEST, _S.BATCH, _S.SCHEDULER, _S.CLI}, {_S.SCHEDULER, _S.DELIVERY},
        "the truth of what was accepted",
    ),
    _row(
        _K.RESULTS, _BY.TENANT, {_S.WORKER, _S.SCHEDULER}, {_S.DELIVERY},
        "the truth of what came of it; the first of a request is its result",
    ),
    _row(
        _K.ATTEMPTS, _BY.TENANT, {_S.WORKER, _S.SCHEDULER}, {_S.SCHEDULER, _S.DELIVERY},
        "one small record for each finished attempt",
    ),
    _row(
        _K.WORK, _BY.LANE, {_S.SCHEDULER, _S.WORKER}, {_S.WORKER},
        "commands to workers: a wire, not a store", retention=_HOUR,
    ),
    _row(
        _K.WORKERS, _BY.ONE, {_S.WORKER, _S.SCHEDULER}, {_S.SCHEDULER, _S.WORKER, _S.CONSOLE, _S.CLI},
        "what workers hold, and the owner's ticks", retention=_HOUR,
    ),
    _row(
        _K.STATE, _BY.ONE, {_S.SCHEDULER}, {_S.SCHEDULER, _S.WORKER, _S.CLI},
        "the owner's checkpoints", compacted=True,
    ),
    _row(
        _K.CONTROL, _BY.ONE, {_S.INGEST, _S.CONSOLE, _S.CLI, _S.DELIVERY, _S.SCHEDULER}, {_S.SCHEDULER},
        "cancellations, queries, drains, moves, delivery's positions",
    ),
    _row(
        _K.REPLIES, _BY.GATEWAY, {_S.WORKER, _S.DELIVERY, _S.SCHEDULER}, {_S.INGEST, _S.CLI},
        "live chunks, final answers, answers to queries", retention=_HOUR,
    ),
    _row(
        _K.QUEUE_STATE, _BY.ONE, {_S.SCHEDULER}, {_S.INGEST, _S.CONSOLE, _S.CLI},
        "depth, oldest wait, rate, accepting or not; who stands by", compacted=True,
    ),
    _row(
        _K.INBOX, _BY.TENANT, {_S.OTHERS}, {_S.INGEST},
        "CloudEvents requests from other services", retention=_WEEK,
    ),
    _row(
        _K.EVENTS, _BY.TENANT, {_S.DELIVERY}, {_S.OTHERS},
        "CloudEvents of the lifecycle", retention=_WEEK,
    ),
    _row(
        _K.DLQ, _BY.TENANT, {_S.WORKER, _S.SCHEDULER, _S.INGEST, _S.DELIVERY}, {_S.CONSOLE},
        "original bytes with reason and history", room=2 * _HEADER_ROOM,
    ),
    _row(
        _K.TENANTS, _BY.ONE, {_S.CONSOLE, _S.CLI}, {_S.INGEST, _S.SCHEDULER, _S.DELIVERY},
        "limits, weights, key hashes, endpoints", compacted=True,
    ),
)  # fmt: skip
TOPICS: dict[TopicKind, TopicRule] = {row.kind: row for row in _ROWS}


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """How many partitions each kind of partitioning has, and how many copies of each the brokers keep."""

    tenant_partitions: int = 8
    lanes: int = 16
    gateways: int = 4
    replication_factor: int = 1
    min_insync_replicas: int = 1

    def partitions(self, by: PartitionedBy) -> int:
        """The number of partitions of a topic partitioned by this."""
        return {
            PartitionedBy.TENANT: self.tenant_partitions,
            PartitionedBy.LANE: self.lanes,
            PartitionedBy.GATEWAY: self.gateways,
            PartitionedBy.ONE: 1,
        }[by]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic that must exist."""

    name: str
    rule: TopicRule
    partitions: int
    replication_factor: int
    min_insync_replicas: int

    def configs(self) -> dict[str, str]:
        """Kafka's own settings of it. Timestamps are the broker's, so that no client's clock moves retention."""
        retention = self.rule.retention
        retention_ms = -1 if retention is None else ms(retention)
        return {
            "cleanup.policy": "compact" if self.rule.compacted else "delete",
            "retention.ms": str(retention_ms),
            "segment.ms": str(ms(self._segment)),
            "max.message.bytes": str(self.rule.max_message_bytes),
            "min.insync.replicas": str(self.min_insync_replicas),
            "message.timestamp.type": "LogAppendTime",
            "unclean.leader.election.enable": "false",
        }

    @property
    def _segment(self) -> timedelta:
        """How long a segment is written to. Kafka expires and compacts closed segments only, so with its default of a week
        a takeover would read a week of `state` and `workers` from their beginnings.
        """
        short = self.rule.compacted or self.rule.retention == _HOUR
        return _SHORT_SEGMENT if short else _LONG_SEGMENT


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Names of topics under one prefix."""

    prefix: str = DEFAULT_PREFIX

    def of(self, kind: TopicKind, *, pool: str = "", tier: str = "") -> str:
        """The full name. Raises ValueError when the kind needs a pool or tier that isn't given."""
        return self.prefix + _named(kind, pool, tier)


@lru_cache(maxsize=4096)
def _named(kind: TopicKind, pool: str, tier: str) -> str:
    for field, given in (("{pool}", pool), ("{tier}", tier)):
        if field in kind and not given:
            raise ValueError(f"the topic {kind} needs a {field.strip('{}')}")
    return kind.format(pool=pool, tier=tier)


def required_topics(
    names: TopicNames, counts: TopicCounts, *, pools: Iterable[str], tiers: Iterable[str]
) -> Iterator[Topic]:
    """Every topic that these pools and tiers need, in the table's order."""
    pools, tiers = tuple(pools), tuple(tiers)
    for rule in TOPICS.values():
        for pool in pools if "{pool}" in rule.kind else ("",):
            for tier in tiers if "{tier}" in rule.kind else ("",):
                yield Topic(
                    names.of(rule.kind, pool=pool, tier=tier),
                    rule,
                    counts.partitions(rule.partitioned_by),
                    counts.replication_factor,
                    counts.min_insync_replicas,
                )
