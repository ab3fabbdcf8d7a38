"""A request that has been read and isn't finished. Made by core.intake; held in the window and the queue."""

from dataclasses import dataclass
from enum import Enum, auto

from headrace.bus.messages import Headers, Received
from headrace.contracts.codec import TRACE_HEADERS
from headrace.contracts.ids import AttemptId
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin
from headrace.scheduler.decisions.pick_next import OrderKey
from headrace.scheduler.decisions.which_flow import NO_KEY

_NONE = AttemptId(0, 0)


class Phase(Enum):
    """Where a tracked request is inside this owner."""

    WAITING = auto()
    DELAYED = auto()
    HELD = auto()
    ENDING = auto()
    FINISHED = auto()


@dataclass(slots=True, eq=False)
class Tracked:
    """One request, kept until it is finished: a retry is the same record again.

    `received` is the record as it was read, for the value and for a dead letter; None: it was spilled, and stands in the log
    alone, so that `record` has what decisions need and `trace` nothing. `charge` is what it was expected to cost
    when it was read or last dispatched, in micro service units; `used` counts attempts used up; it may run from `due_boot_ms`
    (ms since boot) on; `last` is the greatest attempt known; `trace` the trace headers to pass on; `flow` where it waits or
    waited last inside its tenant, `entry` the number of its place there. `stays`: it isn't passed on to another pool again.
    """

    record: RequestRecord
    origin: Origin
    received: Received | None
    trace: Headers
    order: OrderKey
    charge: int
    phase: Phase = Phase.WAITING
    used: int = 0
    due_boot_ms: int = 0
    start_by_ms: int | None = None
    last: AttemptId = _NONE
    flow: int = NO_KEY
    entry: int = 0
    stays: bool = False

    @property
    def id(self) -> str:
        """The request's id."""
        return self.record.id

    @property
    def whole(self) -> bool:
        """Whether its payload is in memory."""
        return self.received is not None

    @property
    def value(self) -> bytes:
        """The caller's payload. Raises ValueError while that is in the log alone."""
        if self.received is None:
            raise ValueError(f"the payload of {self.record.id} hasn't been read again yet")
        return self.received.value or b""


def trace_of(headers: Headers) -> Headers:
    """The trace headers to pass on."""
    if len(headers) < 2:
        return ()  # there is but the record itself
    return tuple(header for header in headers if header[0] in TRACE_HEADERS)
