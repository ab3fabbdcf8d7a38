"""The records of `workers.{pool}`: what workers hold, and the owner's ticks by which their deaths are judged.

Written by workers and by the owner; read by the scheduler, by workers choosing a lane, and by the CLI.
"""

from typing import Annotated

from msgspec import Meta, Struct

from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import MostSaid
from headrace.contracts.prefixes import Prefix
from headrace.contracts.values import Count, Mark, Name, Origin, Port16

MOST_PER_MINUTE = 10**12
LONGEST_RESET_MS = 60_000
"""A backend that takes nothing for longer is tried again all the same: it may lie, or its limit have been raised."""
MOST_RAN = 512
"""Prompts whose beginnings a worker remembers: 64 KiB of a report at most."""


class Held(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One attempt in a worker's hands, with all that a new owner needs to account for it.

    `tokens` is the number of completion tokens so far, beside those `before` it, of the text that it goes on from; `running`:
    the backend has it. `expects` and `trial` are echoed from the `run`.
    """

    attempt: AttemptId
    id: Mark
    tenant: Name
    tier: Name
    origin: Origin
    attempts: Count
    charge: Count = 0
    expects: Count = 0
    tokens: Count = 0
    running: bool = False
    trial: Count = 0
    before: MostSaid = 0


class Gauges(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an engine tells of itself, one sample of its metrics; None: this engine doesn't tell that.

    `sample` numbers the samples of a boot, `age_ms` is how old this one is. `waiting`: for capacity, over all its engines.
    `kv_tokens`: the size of the KV cache, `kv_permille`: how much of it is used, the fullest engine's. `preemptions`: how
    many requests were put out of the cache since it started.
    """

    sample: Count
    age_ms: Count = 0
    running: Count | None = None
    waiting: Count | None = None
    kv_tokens: Count | None = None
    kv_permille: Count | None = None
    preemptions: Count | None = None


class PerMinute(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a backend takes in a minute: requests, and tokens of prompts and answers together; None: any number."""

    requests: Annotated[int, Meta(ge=1, le=MOST_PER_MINUTE)] | None = None
    tokens: Annotated[int, Meta(ge=1, le=MOST_PER_MINUTE)] | None = None


class Left(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How many requests, or tokens, a backend said that it takes before `reset_ms` are over, less those begun since.

    `left` None: nobody knows any more. `limit`: what it takes between two resets; None: it didn't say. `steady`: as many come
    back evenly within a minute, and not all at the reset.
    """

    left: Annotated[int, Meta(ge=-MOST_PER_MINUTE, le=MOST_PER_MINUTE)] | None = None
    reset_ms: Annotated[int, Meta(ge=0, le=LONGEST_RESET_MS)] = 0
    limit: Annotated[int, Meta(ge=1, le=MOST_PER_MINUTE)] | None = None
    steady: bool = False


class Allowed(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a backend said last, with an answer, of its limits; None: nothing. `through`: the greatest attempt that was begun,
    so that all that were sent after it are still to be taken off.
    """

    requests: Left | None = None
    tokens: Left | None = None
    through: AttemptId = AttemptId(0, 0)


class Report(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="report"):
    """A worker's snapshot, each 500 ms and on fences. The first one registers the boot.

    `epoch` is the greatest seen; `position` the next offset of its lane to be read, in one snapshot with `held`.
    `limit` is how many attempts it may hold at a time. `healthy`: its backend answers. `instead_of`: the boot before this
    one, which the same process gave up by itself, so that nothing has killed it. `gauges`: the backend's last sample; None:
    it has no metrics that are known. `per_minute`: what its operator says that the backend takes; None: nothing. `allowed`:
    what the backend itself says that it takes now. `ran`, in answers to fences alone: the beginnings of prompts that it began
    last, the latest last, for an owner that doesn't know.
    """

    worker: Name
    boot: Mark
    epoch: Count
    lane: Port16
    position: Count
    limit: Count
    held: tuple[Held, ...] = ()
    healthy: bool = True
    draining: bool = False
    instead_of: Mark | None = None
    gauges: Gauges | None = None
    per_minute: PerMinute | None = None
    allowed: Allowed | None = None
    ran: Annotated[tuple[Prefix, ...], Meta(max_length=MOST_RAN)] = ()


class Gone(Struct, frozen=True, kw_only=True, tag="gone"):
    """A clean goodbye: this boot holds nothing and writes nothing more."""

    worker: Name
    boot: Mark


class Tick(Struct, frozen=True, kw_only=True, tag="tick"):
    """The owner's heartbeat in this log: 8 of one epoch after a boot's last report make it dead."""

    epoch: Count
    number: Count


WorkerRecord = Report | Gone | Tick
