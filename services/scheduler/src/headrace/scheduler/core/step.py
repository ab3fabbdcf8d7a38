"""What goes into a step of the core and what comes out. Built and carried out by pool_loop; nothing here does I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import Confirmation, Run, RunRead
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding


@dataclass(frozen=True, slots=True)
class Inputs:
    """What happened since the last step. `ends` answers the question asked last; `committed`: so is the checkpoint begun."""

    records: Sequence[Received] = ()
    confirmations: Sequence[Confirmation] = ()
    ends: Mapping[Place, int] | None = None
    committed: bool = False
    trimmed: Mapping[Place, int] | None = None
    """Where the logs begin that were to be trimmed last; empty when that failed."""
    read_again: Sequence[RunRead] = ()
    """Runs of `requests` that were to be read again."""


class Send(Struct, frozen=True):
    """A message to send; `token` comes back with its confirmation. `waited_ms`: for a `run`, how long its request waited."""

    token: object
    message: Message
    waited_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something an operator may want to know: for the log, once, at the edge. Never a payload."""

    event: str
    fields: Mapping[str, str | int | None]
    warning: bool = False


@dataclass(frozen=True, slots=True)
class BackendFigures:
    """One backend: attempts held, and how many may be; what keeps the next one back. `theta_percent`, `forecast_tokens` and
    `cache_tokens`, what is held will come to and what may be promised a part of, are None where its cache isn't known.
    """

    worker: str
    held: int
    limit: int
    binds: Binding
    theta_percent: int | None = None
    forecast_tokens: int | None = None
    cache_tokens: int | None = None


@dataclass(slots=True)
class Outputs:
    """What is to be done now, in this order. `wake_ms` (since boot): step again by then even if nothing happens.

    `stop`: a sentence; this pool can't go on until somebody mends it. `busy`: a confirmation is awaited, so look again soon.
    `released`: the last checkpoint is committed, and the pool isn't ours any more. `trim`: delete the records below these
    offsets. `undelivered`: records that could go if result-delivery had committed them; None: not looked at.
    `checkpoint_ms`: how long the checkpoint took that was committed now, if one was; then also `backends`, all live ones.
    """

    sends: list[Send] = field(default_factory=list)
    ask_ends: tuple[Place, ...] = ()
    checkpoint: list[Message] = field(default_factory=list)
    paused: set[Place] = field(default_factory=set)
    notices: list[Notice] = field(default_factory=list)
    counts: dict[Counted, int] = field(default_factory=dict)
    waits_ms: list[tuple[str, int]] = field(default_factory=list)
    wake_ms: int = 0
    busy: bool = False
    stop: str | None = None
    released: bool = False
    trim: dict[Place, int] = field(default_factory=dict)
    read_again: list[Run] = field(default_factory=list)
    undelivered: int | None = None
    checkpoint_ms: int | None = None
    backends: tuple[BackendFigures, ...] | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """Who serves the pool now: live workers, the attempts they may hold together, and those they hold. `over_ceiling`: the
    pool has spent what its backends may be given.
    """

    workers: int
    slots: int
    held: int
    over_ceiling: bool = False
