"""The records of `queue-state` and `dlq`: what operators and autoscalers look at."""

from msgspec import Struct

from headrace.contracts.deaths import Death
from headrace.contracts.failures import FailureKind
from headrace.contracts.values import Count, Name, Port16, Sentence, WallMs


class QueueState(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="queue_state"):
    """Key `{pool}/{tier}`: the queue as its owner sees it, each second. Readers keep the highest epoch.

    `depth` counts requests read and waiting; `held` those at workers; `limit` the pool's slots. `rate_milli` is completions
    per 1,000 s over the last 30 s. `accepting` is true as long as nobody closes a queue.
    """

    pool: Name
    tier: Name
    epoch: Count
    as_of_ms: WallMs
    depth: Count
    oldest_wait_ms: Count = 0
    held: Count = 0
    limit: Count = 0
    rate_milli: Count = 0
    accepting: bool = True
    paused_partitions: Count = 0


class Standby(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="standby"):
    """Key `{pool}/standby/{replica}`: a replica that stands by for a pool, each 5 s. One that fell silent is gone.

    `rank` is its place among those that may follow, from 0. `behind` counts the records of `requests` that it would read
    first and hasn't yet; `prefetched` those in its memory.
    """

    pool: Name
    replica: Name
    as_of_ms: WallMs
    rank: Count
    behind: Count = 0
    prefetched: Count = 0


QueueStateRecord = QueueState | Standby


class DeadLetter(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="dead_letter"):
    """Why a record was taken out of service. The value is the record's original value, untouched; its original headers
    follow under their own names, but for `headrace`, which becomes `headrace-original`. `deaths`: the workers and engines
    that went down while they held this request, oldest first.
    """

    reason: FailureKind
    topic: str
    partition: Port16
    offset: Count
    at_ms: WallMs
    by: Name
    detail: Sentence = ""
    id: str | None = None
    tenant: Name | None = None
    attempts: Count = 0
    deaths: tuple[Death, ...] = ()
