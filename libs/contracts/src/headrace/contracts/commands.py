"""The records of `work.{pool}`: a wire of commands from the owner to a worker's lane, not a store.

Invariant: each command carries the sender's epoch (that is what is fenced), all but fence and ping the boot they are for.
"""

from enum import StrEnum

from msgspec import Struct

from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import KeptText
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Count, Mark, Origin, WallMs


class CancelReason(StrEnum):
    """Why a running attempt is to stop: decides which terminal record it ends with; who is preempted waits again."""

    CALLER = "caller"
    OPERATOR = "operator"
    DEADLINE = "deadline"
    SUPERSEDED = "superseded"
    PREEMPTED = "preempted"


class Run(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, tag="run"):
    """Carry out this attempt. The record's value is the request's payload: workers don't read `requests`.

    `attempts` counts this try, from 1. `charge` is in micro service units, to be echoed. So are `expects`, the tokens that it
    was expected to take, as ceilings count them (0: nobody counts), and `trial`: how many suspects of a death run at this
    worker now, and nothing else; 0: normal work. `stoppable`: its slot may be taken back for a more urgent tier, or its place
    in a cache, so that the text so far is worth having. `text`: it has been stopped before, and goes on from there.
    """

    epoch: Count
    boot: Mark
    attempt: AttemptId
    attempts: Count
    origin: Origin
    request: RequestRecord
    charge: Count = 0
    expects: Count = 0
    dispatched_ms: WallMs | None = None
    trial: Count = 0
    stoppable: bool = False
    text: KeptText | None = None


class Cancel(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="cancel"):
    """Stop this attempt. `superseded`: the request is finished already, so write no terminal record."""

    epoch: Count
    boot: Mark
    attempt: AttemptId
    id: Mark
    reason: CancelReason


class Fence(Struct, frozen=True, kw_only=True, tag="fence"):
    """A new owner: answer with a report of this epoch and all that is held."""

    epoch: Count


class Buried(Struct, frozen=True, kw_only=True, tag="buried"):
    """This boot was declared dead: abort everything and register anew."""

    epoch: Count
    boot: Mark


class Drain(Struct, frozen=True, kw_only=True, tag="drain"):
    """Take no new work, hand back what hasn't started, finish the rest; then stay, visibly idle."""

    epoch: Count
    boot: Mark


class Undrain(Struct, frozen=True, kw_only=True, tag="undrain"):
    """Take work again."""

    epoch: Count
    boot: Mark


class Ping(Struct, frozen=True, omit_defaults=True, kw_only=True, tag="ping"):
    """Nothing to do: shows that the lane is read. From the owner (`epoch`) or from the worker itself (`boot`)."""

    number: Count
    epoch: Count | None = None
    boot: Mark | None = None


Command = Run | Cancel | Fence | Buried | Drain | Undrain | Ping
