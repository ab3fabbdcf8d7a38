"""Which requests of a pool an operator means, and what the owner found of them. Part of questions and orders in `control`,
and of answers on `replies`.

Invariant: a selection speaks only of what the owner knows without a payload.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.values import Count, Mark, Name, Priority, TopicName, WallMs

MOST_FOUND = 200
"""Requests named in one answer: the oldest of those that fit."""


class Stage(StrEnum):
    """Where an unfinished request is: it waits for its turn or its next try, or a worker has it."""

    QUEUED = "queued"
    RUNNING = "running"


class Stays(StrEnum):
    """Why a request that waits may not go to another pool: a worker had it before; it has been there, or in as many pools as
    a request may be in; its caller keeps it here; the other pool's log took no such record; it isn't clear which of the
    models there it means; or its owner knows no such pool.
    """

    TRIED = "tried"
    BEEN_THERE = "been_there"
    TOO_MANY_POOLS = "too_many_pools"
    KEPT = "kept"
    REFUSED = "refused"
    NO_MODEL = "no_model"
    NO_POOL = "no_pool"


class Selection(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The unfinished requests that fit every field that is given; none given: all. `model` is the name that the backend
    knows; `id_prefix` begins an id; `accepted_before_ms` is Unix time by ingest's clock. `stands_before`: by topic and
    partition of `requests` the offset before which it stands: what was accepted until then, whatever any clock says, and
    whoever reads it again later. It fits nothing in a partition that isn't named.
    """

    tier: Name | None = None
    tenant: Name | None = None
    model: Name | None = None
    id_prefix: Mark | None = None
    stage: Stage | None = None
    accepted_before_ms: WallMs | None = None
    stands_before: dict[TopicName, dict[int, Count]] | None = None


class Find(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which requests fit? `most`: so many are to be named. `priority`: and how many of them have another one? `to`: and
    how many may go to this pool, as `model` (None: as it knows the same, or its only one)?
    """

    selection: Selection
    most: Annotated[int, Meta(ge=0, le=MOST_FOUND)] = 0
    priority: Priority | None = None
    to: Name | None = None
    model: Name | None = None


class FoundRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One request that fits. `cost` is what it is charged, in micro service units; `attempts` those that were used up."""

    id: str
    tenant: Name
    tier: Name
    model: Name
    stage: Stage
    accepted_ms: WallMs
    priority: int = 0
    cost: Count = 0
    attempts: Count = 0


class Found(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How many fit, of those that the owner has read; `requests` are the oldest of them. `unread_partitions`: so many
    request partitions that may hold more of them aren't read at present, since their window is full. `of_other_priority`:
    so many have another priority than was asked for; `may_go`: so many may go to the pool that was asked for, and `stay`,
    why the others that wait may not. `moved`: so many has this owner sent there by an order in the same words; None: it
    knows of no such order.
    """

    queued: Count
    running: Count
    requests: Annotated[tuple[FoundRequest, ...], Meta(max_length=MOST_FOUND)] = ()
    unread_partitions: Count = 0
    of_other_priority: Count | None = None
    may_go: Count | None = None
    stay: dict[Stays, Count] = {}
    moved: Count | None = None
