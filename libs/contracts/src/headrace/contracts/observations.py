"""The records of `queue-state` and `dlq`: what operators and autoscalers look at."""

from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.deaths import Death
from headrace.contracts.failures import FailureKind
from headrace.contracts.values import Count, Name, Port16, Sentence, WallMs

MOST_TENANTS_TOLD = 100
"""Of a tier in one record: those that wait most for their weight."""


class TenantQueue(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tenant's queue in a tier: `depth` requests wait, of `backlog` service units in all.

    `may_wait` is what the full pool serves for it within the tier's queue time-out, `fair_share` what its share alone of that
    is, `served_milli` what was served for it in the last 30 s, per 1,000 s. In service units, the limits rounded up.
    """

    tenant: Name
    depth: Count
    backlog: Count
    may_wait: Count
    fair_share: Count
    served_milli: Count = 0


class QueueState(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="queue_state"):
    """Key `{pool}/{tier}`: the queue as its owner sees it, each second. Readers keep the highest epoch.

    `depth` counts requests read and waiting; `held` those at workers; `limit` the pool's slots. `rate_milli` is completions
    per 1,000 s over the last 30 s. `backlog` is the cost of what waits, `may_wait` of what the full pool serves within the
    tier's queue time-out (None: not known), `served_milli` what was served of it in the last 30 s, per 1,000 s; all in
    service units, caps rounded up.
    `spilled` counts those of `depth` of which the owner has only metadata in memory.
    `frozen`: an operator holds the whole tier back; `frozen_tenants`: those whom it holds back in it (a hundred at most);
    `frozen_depth` counts those of `depth` that are held back, `paced_depth` those whose tenants are over a ceiling.
    `accepting`: no more waits than may. `tenants`: those that wait most for their weight; none where no cap is known.
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
    backlog: Count = 0
    may_wait: Count | None = None
    served_milli: Count = 0
    spilled: Count = 0
    frozen: bool = False
    frozen_tenants: Annotated[tuple[Name, ...], Meta(max_length=MOST_TENANTS_TOLD)] = ()
    paced_depth: Count = 0
    frozen_depth: Count = 0
    tenants: Annotated[tuple[TenantQueue, ...], Meta(max_length=MOST_TENANTS_TOLD)] = ()


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
