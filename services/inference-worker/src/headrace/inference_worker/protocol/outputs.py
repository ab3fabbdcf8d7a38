"""What the protocol core wants done: a closed set. Performed by the service, which answers with inputs.

Invariant: a write's `token` is unique; exactly one `Written` with it comes back.
"""

from dataclasses import dataclass

from headrace.contracts.commands import Ping
from headrace.contracts.ids import AttemptId
from headrace.contracts.outcomes import AttemptRecord, ResultRecord
from headrace.contracts.reports import Gone, Report
from headrace.inference_worker.protocol.inputs import TraceHeaders, Work


@dataclass(frozen=True, slots=True)
class FindLane:
    """Pick a lane and note its end; answer with LaneFound. Stop following any lane."""


@dataclass(frozen=True, slots=True)
class ReadEpoch:
    """Read `state` to its end now; answer with EpochRead."""

    boot: str


@dataclass(frozen=True, slots=True)
class FollowLane:
    """Read this lane from here on; answer with LaneRead each time."""

    boot: str
    lane: int
    position: int


@dataclass(frozen=True, slots=True)
class SendWorker:
    """Write to `workers`."""

    token: object
    record: Report | Gone


@dataclass(frozen=True, slots=True)
class SendPing:
    """Write to our own lane."""

    token: object
    lane: int
    record: Ping


@dataclass(frozen=True, slots=True)
class SendResult:
    """Write to `results`, with the body as value."""

    token: object
    record: ResultRecord
    body: bytes
    trace: TraceHeaders


@dataclass(frozen=True, slots=True)
class SendAttempt:
    """Write to `attempts`, to the partition of the request; the value is the text that is kept, if one is."""

    token: object
    record: AttemptRecord
    partition: int
    trace: TraceHeaders
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class Start:
    """Call the backend; answer with Progress and CallEnded."""

    work: Work


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop this call at the backend; its CallEnded says aborted, with what text there is."""

    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class AbortAll:
    """Stop every call; nobody waits for their ends."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do: the process may end."""


Output = (
    FindLane
    | ReadEpoch
    | FollowLane
    | SendWorker
    | SendPing
    | SendResult
    | SendAttempt
    | Start
    | Abort
    | AbortAll
    | Finished
)
