"""What the owner of a pool says of one request's wait: why it waits, and what a request like it would meet.

Written by the scheduler into answers on `replies`, read by ingest. Invariant: of other tenants there are numbers only, never
names. Costs are in service units, rates those per 1,000 s, shares in thousandths of the pool's work.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Count, Name, WallMs

MOST_TIERS_QUOTED = 16
Permille = Annotated[int, Meta(ge=0, le=1_000)]


class Gate(StrEnum):
    """What keeps a request from being released now. Each has its sentence in GATES."""

    UNREAD = "unread"
    RECOVERING = "recovering"
    LEAVING = "leaving"
    FROZEN = "frozen"
    COMMANDS_STALLED = "commands_stalled"
    POOL_CEILING = "pool_ceiling"
    CEILING = "ceiling"
    SUSPECT = "suspect"
    RETRY_WAIT = "retry_wait"
    NO_WORKER = "no_worker"
    NO_READY_WORKER = "no_ready_worker"
    SET_APART = "set_apart"
    BACKEND_CEILING = "backend_ceiling"
    SLOTS = "slots"
    BACKEND_LIMIT = "backend_limit"
    HEADROOM = "headroom"
    STOPPED_OFTEN = "stopped_often"
    TENANT_SLOTS = "tenant_slots"
    READING_AGAIN = "reading_again"
    CACHE = "cache"


GATES: dict[Gate, str] = {
    Gate.UNREAD: "The pool's owner hasn't read it yet, or has just ended it.",
    Gate.RECOVERING: "The pool has a new owner, which is finding out what workers hold; nothing is released until then.",
    Gate.LEAVING: "The pool is being given to another scheduler replica.",
    Gate.FROZEN: "An operator holds it back, with all of its tenant, its tier or its pool, until further notice.",
    Gate.COMMANDS_STALLED: "Kafka doesn't acknowledge commands to workers just now.",
    Gate.POOL_CEILING: "All together have spent what the pool's backends may be given in a time; it goes on by itself.",
    Gate.CEILING: "You have spent what you may spend in a time; yours go on by themselves.",
    Gate.SUSPECT: "Workers or engines have died while they held it, so it waits to run apart from others.",
    Gate.RETRY_WAIT: "An attempt failed; it waits for its next try.",
    Gate.NO_WORKER: "The pool has no live worker.",
    Gate.NO_READY_WORKER: "No worker takes work: its backend is unhealthy, it is being drained, or it hasn't answered yet.",
    Gate.SET_APART: "The only worker that takes work is set apart to try suspects.",
    Gate.BACKEND_CEILING: "Backends have been given what they take for now; it goes on by itself.",
    Gate.SLOTS: "The slots of all workers are taken.",
    Gate.BACKEND_LIMIT: "The backends hold as many requests as their engines were found to hold well.",
    Gate.HEADROOM: "What slots are free are kept for another tier.",
    Gate.STOPPED_OFTEN: "The next of this tier was stopped for urgent work as often as it may be; as many such run as may.",
    Gate.TENANT_SLOTS: "You have as many requests in flight as you may have while others of this tier wait.",
    Gate.READING_AGAIN: "The next of yours is being read from the log again: so many of yours wait that it wasn't in memory.",
    Gate.CACHE: "The next request in line doesn't fit any engine's KV cache beside what runs.",
}


class Closed(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A closed gate: its limit and how much of that is taken, where it counts something; `until_ms`, where it knows."""

    gate: Gate
    limit: Count | None = None
    used: Count | None = None
    until_ms: WallMs | None = None


class Ahead(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What goes before it if nothing more comes: requests of its own tenant in its tier, of so many other `tenants` there,
    and of each tier (its own among them); `cost` of all. `exact` false: there are so many that samples were counted.
    """

    own: Count = 0
    others: Count = 0
    tenants: Count = 0
    tiers: dict[Name, Count] = {}
    cost: Count = 0
    exact: bool = True


class Share(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Its tenant's part: by weight among those who wait now (`part`; `tier`: what its whole tier gets), and what it `got` of
    what the pool served in the last 30 s. `waiting_weight`: of all who wait in its tier, itself included, but for
    those who are held back.
    """

    weight: Count
    waiting_weight: Count
    part_permille: Permille
    tier_permille: Permille
    got_permille: Permille = 0
    served_milli: Count = 0
    pool_served_milli: Count = 0
    in_flight: Count = 0


class LengthFrom(StrEnum):
    """Where the expected length of an answer comes from."""

    TENANT = "tenant"
    MODEL = "model"
    DEFAULT = "default"
    MAX_TOKENS = "max_tokens"


class RateFrom(StrEnum):
    """Where the rate comes from by which a wait is told: what the tenant was served, or its share of what the pool served."""

    SERVED = "served"
    SHARE = "share"
    NOTHING = "nothing"


class Basis(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an estimate rests on. `answer_tokens`: the mean expected of each choice, `most_answer_tokens` what 9 in 10 don't
    exceed, learnt from so many `answers`; `cost` the charge; `takes_ms`, `takes_most_ms` from the start to the end of such
    answers at the pool's present pace (None: not known); `rate_milli` what its tenant is expected to be served.
    """

    prompt_tokens: Count
    answer_tokens: Count
    most_answer_tokens: Count
    length_from: LengthFrom
    answers: Count = 0
    choices: Count = 1
    max_tokens: Count | None = None
    cost: Count = 0
    takes_ms: Count | None = None
    takes_most_ms: Count | None = None
    rate_milli: Count = 0
    rate_from: RateFrom = RateFrom.NOTHING


class Why(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a request isn't running. `closed`: all gates that are closed to it, in the order in which they are asked; none: it
    only waits for its turn, or runs.
    """

    closed: tuple[Closed, ...] = ()
    ahead: Ahead | None = None
    share: Share | None = None
    basis: Basis | None = None


class Quote(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What would become of this request if it came now, in each of these tiers? It is in no log, and gets into none."""

    request: RequestRecord
    tiers: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MOST_TIERS_QUOTED)]


class Misses(StrEnum):
    """What a quoted request wouldn't keep."""

    QUEUE_TIMEOUT = "queue_timeout"
    DEADLINE = "deadline"


class Offer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The owner's word on a quoted request in one tier. Half of all start within `wait_ms`, 19 of 20 within `wait_p95_ms`
    (None: nobody knows); `feasible` None: nobody knows either.
    """

    tier: Name
    why: Why
    wait_ms: Count | None = None
    wait_p95_ms: Count | None = None
    feasible: bool | None = None
    misses: Misses | None = None
