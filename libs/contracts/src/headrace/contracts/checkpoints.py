"""The records of `state.{pool}`: the owner's checkpoint, written in one transaction each second, one key for each part.

Written by the owner alone (transactional.id `headrace.scheduler.{pool}`); read by schedulers, booting workers and the CLI.
Invariant: a checkpoint only saves reading from the beginning; all of it is a fold over `requests`, `attempts`, `control`.
"""

from msgspec import Struct

from headrace.contracts.deaths import Death
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import KeptText
from headrace.contracts.reports import PerMinute
from headrace.contracts.selections import Selection
from headrace.contracts.values import Count, Name, Origin, Port16, Priority, WallMs


class Ownership(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="ownership"):
    """Key `ownership`: who owns the pool. Written each second: heartbeat, lease and fence in one.

    `sequence` is the last attempt sequence used in this epoch. `released`: a clean stop, the next may take over at once;
    where `successor` is named, that replica alone, and others after the usual silence. `since_ms` is the instant of the
    claim, `gate_open` whether the owner releases work yet. `state_id` is the id of the `state` topic as the owner claimed it.
    """

    epoch: Count
    owner: Name
    number: Count
    begun_ms: WallMs
    sequence: Count = 0
    released: bool = False
    successor: Name | None = None
    since_ms: WallMs | None = None
    gate_open: bool = False
    state_id: str | None = None


class Finished(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="finished"):
    """Key `finished/{topic}/{partition}`: which offsets of a request partition are finished.

    All below `prefix` are; `beyond` maps a block's first offset (a multiple of 4,096) to its bitmap: bit i of byte i // 8,
    least significant first, is offset block + i. `topic_id` and `leader_epoch` tell a recreated or truncated log: the epoch
    is that of the newest record read, which stands before `read_to`.
    """

    topic: str
    partition: Port16
    prefix: Count
    beyond: dict[int, bytes] = {}
    topic_id: str | None = None
    leader_epoch: int | None = None
    read_to: Count = 0


class Positions(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="positions"):
    """Key `positions`: the next offsets to read; in `control` never past an order that isn't obeyed yet.

    `delivered`: topic -> partition -> how far result-delivery has committed it, as it last said in `control`. `topic_ids` by
    topic name, and the leader epochs of the newest records read, tell recreated and truncated logs.
    """

    attempts: dict[int, Count]
    control: Count
    delivered: dict[str, dict[int, Count]] = {}
    topic_ids: dict[str, str] = {}
    attempts_leaders: dict[int, Count] = {}
    control_leader: Count | None = None


class TenantCounter(Struct, frozen=True, kw_only=True, tag="tenant_counter"):
    """Key `tenant/{tier}/{tenant}`: the settled counter, micro service units over weight."""

    tier: Name
    tenant: Name
    settled: int


class TierCounter(Struct, frozen=True, kw_only=True, tag="tier_counter"):
    """Key `tier/{tier}`: the tier's start tag, and the largest tenant tag dispatched so far."""

    tier: Name
    start_tag: int
    largest_tag: int


class Retrying(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="retrying"):
    """Key `retrying/{id}`: what is known of a request that failed before and isn't finished.

    `deaths` are the keys of those of which it is a suspect; `suspect` says whether there are any, for people. `group`: with
    whom it is tried apart from all other work; None: it runs like any other. `gave_up`: no further attempt, it is to end with
    this kind. It is due at `due_ms`, `wait_ms` after its failure: nobody waits longer than that, whatever the next owner's
    clock says. `preempted`: how often it gave its slot to a more urgent tier and lost what it had said, or had said nothing
    new. `text`: what it goes on from, and `text_at`, where in `attempts` that stands.
    """

    id: str
    origin: Origin
    attempt: AttemptId
    attempts: Count
    due_ms: WallMs
    suspect: bool = False
    deaths: tuple[str, ...] = ()
    group: str | None = None
    gave_up: FailureKind | None = None
    wait_ms: Count | None = None
    preempted: Count = 0
    text: KeptText | None = None
    text_at: Origin | None = None


class Rerouting(Struct, frozen=True, kw_only=True, tag="rerouting"):
    """Key `rerouting/{id}`: the request that stands at `origin` is to be written, or may have been, into the pool `to`, whose
    backends know its model as `model`. Committed before the write: a successor that finds it writes it again.
    """

    id: str
    origin: Origin
    to: Name
    model: Name


class Rerouted(Struct, frozen=True, kw_only=True, tag="rerouted"):
    """Key `rerouted/{minute}/{piece}`: which ids went to which pool in that minute of Unix time; kept for a day, so that who
    asks for one, or cancels it, is passed on, too.
    """

    minute: Count
    went: dict[str, Name]


class RecentlyFinished(Struct, frozen=True, kw_only=True, tag="recently_finished"):
    """Key `recent/{minute}`: ids finished in that minute of Unix time, kept for 15 minutes against duplicates."""

    minute: Count
    ids: tuple[str, ...]


class Settled(Struct, frozen=True, kw_only=True, tag="settled"):
    """Key `settled/{minute}/{piece}`: attempts booked in that minute of Unix time, kept for 15 minutes: an outcome that is
    written twice around a change of owner is booked once.
    """

    minute: Count
    attempts: tuple[AttemptId, ...]


class HeldBack(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Whom an operator holds back, as Freeze names it."""

    tier: Name | None = None
    tenant: Name | None = None


class Frozen(Struct, frozen=True, kw_only=True, tag="frozen"):
    """Key `frozen`: all whom an operator holds back."""

    holds: tuple[HeldBack, ...]


class Debt(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was spent of a ceiling is paid back at `due_ms`, `owed_ms` after this was written: nobody is paced for longer than
    that, whatever the next owner's clock says, unless the ceiling is lower by then than `amount` (None: not told).
    """

    due_ms: WallMs
    owed_ms: Count
    amount: Count | None = None


class Paced(Struct, frozen=True, kw_only=True, tag="paced"):
    """Key `paced/{tenant}`, or `paced` for the pool itself: what is owed of its ceilings, by what they count and in how many
    microseconds (`tokens/60000000`). What attempts up to `through` were charged is in it.
    """

    tenant: Name | None
    through: AttemptId
    debts: dict[str, Debt]


class BackendPaced(Struct, frozen=True, kw_only=True, tag="backend_paced"):
    """Key `backend_paced/{worker}`: likewise, what is owed of what this worker's backend takes in a minute."""

    worker: Name
    per_minute: PerMinute
    through: AttemptId
    debts: dict[str, Debt]


class Reprioritised(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="reprioritised"):
    """Key `reprioritised/{offset}`: an operator's order that stands at this offset of `control`, kept until all that stands
    before the ends that it names is finished: a request that is read again gets its priority again.
    """

    offset: Count
    selection: Selection
    priority: Priority


class Forgotten(Struct, frozen=True, kw_only=True, tag="forgotten"):
    """Under the key of a part that no longer matters, in place of it: compaction keeps the last."""

    at_ms: WallMs


StateRecord = (
    Ownership
    | Finished
    | Positions
    | TenantCounter
    | TierCounter
    | Retrying
    | Death
    | RecentlyFinished
    | Settled
    | Rerouting
    | Rerouted
    | Frozen
    | Paced
    | BackendPaced
    | Reprioritised
    | Forgotten
)
