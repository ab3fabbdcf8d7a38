"""What the protocol core is told: a closed set of things that happened. Made by the service, in order of occurrence."""

from dataclasses import dataclass

from headrace.contracts.commands import Command, Run
from headrace.contracts.ids import AttemptId
from headrace.contracts.reports import Allowed, Gauges
from headrace.inference_worker.outcome import Outcome

TraceHeaders = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class LaneFound:
    """A lane was picked and its end noted; `boot` is new, and greater than any before it."""

    boot: str
    lane: int
    position: int


@dataclass(frozen=True, slots=True)
class EpochRead:
    """The greatest epoch in `state` (0: none yet), read after the registration of `boot` was acknowledged."""

    boot: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Work:
    """A `run` with the request's value, trace headers and kept text beside it; opaque to the core but for the command."""

    run: Run
    value: bytes = b""
    trace: TraceHeaders = ()
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class LaneRead:
    """Records of the lane, in log order, up to before `position`."""

    boot: str
    position: int
    commands: tuple[Work | Command, ...] = ()


@dataclass(frozen=True, slots=True)
class LaneLost:
    """The lane can't be read on from where we stood."""

    boot: str


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a write: `token` is the output's. `too_large`: it will never be taken as it is."""

    token: object
    acknowledged: bool
    too_large: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Completion tokens of a running attempt so far."""

    attempt: AttemptId
    tokens: int


@dataclass(frozen=True, slots=True)
class LimitsHeard:
    """What the head of a running attempt's answer said of its backend's limits."""

    attempt: AttemptId
    allowed: Allowed


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The backend call of this attempt is over."""

    attempt: AttemptId
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class BackendSeen:
    """What a health probe saw."""

    healthy: bool


@dataclass(frozen=True, slots=True)
class GaugesSeen:
    """A sample of the backend's metrics; its number and age are the core's to tell."""

    gauges: Gauges


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The process is to end: drain, say goodbye, finish."""


Input = (
    LaneFound
    | EpochRead
    | LaneRead
    | LaneLost
    | Written
    | Progress
    | LimitsHeard
    | CallEnded
    | BackendSeen
    | GaugesSeen
    | StopAsked
)
