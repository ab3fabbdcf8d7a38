"""What one call of the backend came to, as the caller of the backend tells the protocol core. Pure data."""

from dataclasses import dataclass

from headrace.contracts.failures import FailureKind
from headrace.contracts.seal import Encoding
from headrace.contracts.values import Failure, Times, Usage

JSON = "application/json"
NO_USAGE, NO_TIMES = Usage(), Times()


@dataclass(frozen=True, slots=True)
class Kept:
    """A text to go on from: its bytes as they are stored, how many tokens and characters it is."""

    text: bytes
    tokens: int
    characters: int
    encoding: Encoding = Encoding.NONE


@dataclass(frozen=True, slots=True)
class Outcome:
    """No `failure` and not `aborted`: success. `body` is what is stored, encoded as `encoding` says.

    `http_status` is the backend's, relayed; None: the failure table's face is used. `started` false: the backend never saw
    the request. `aborted`: we stopped the call; why is known to the core. `usage` is what this attempt spent, `before` the
    tokens of the text that it went on from. `kept`: what a later attempt can go on from, if there is such a text.
    """

    failure: Failure | None = None
    http_status: int | None = None
    body: bytes = b""
    content_type: str = JSON
    encoding: Encoding = Encoding.NONE
    partial: bool = False
    started: bool = True
    aborted: bool = False
    usage: Usage = NO_USAGE
    times: Times = NO_TIMES
    before: int = 0
    kept: Kept | None = None


def unstarted(kind: FailureKind, message: str = "") -> Outcome:
    """The outcome of an attempt that the backend never saw."""
    return Outcome(failure=Failure(kind=kind, message=message), started=False)
