"""What the service and the doors need of the world, in protocols of one or two methods; adapters/ fulfil them."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol, Self

from headrace.bus.messages import Headers
from headrace.contracts.explanations import Quote
from headrace.contracts.observations import QueueState
from headrace.contracts.replies import Answer, Chunk, Final
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Times
from headrace.ingest.decisions.what_to_answer import Ended


class OutcomeUnknownError(Exception):
    """The log didn't confirm a write: it may be there or not."""


class NotWrittenError(Exception):
    """The log took nothing, and won't: the same may be written again."""


class DoesNotFitError(Exception):
    """The log doesn't take a record of this size; it was not written."""


class ResultsUnavailableError(Exception):
    """The results can't be read now."""


class GoneError(Exception):
    """The caller has hung up."""


class StoppingError(Exception):
    """This replica stops before what is waited for has come."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """One row of the results, its body opened. `body` is empty when only the status was asked for."""

    ended: Ended
    tier: str
    model: str
    route: str
    stream: bool
    attempts: int
    accepted_ms: int
    times: Times


@dataclass(frozen=True, slots=True)
class PassedOn:
    """The pool that a request was passed on to last, and how often it was: its record stands in that pool's log."""

    pool: str
    hop: int


@dataclass(frozen=True, slots=True)
class Heard:
    """One record of `replies`, with its value and where it stood."""

    record: Chunk | Final | Answer
    value: bytes = b""
    partition: int = 0
    offset: int = 0


class RequestLog(Protocol):
    """Where accepted requests are written down."""

    async def accept(self, record: RequestRecord, value: bytes, trace: Headers) -> None:
        """Returns once it is acknowledged. Raises OutcomeUnknownError, NotWrittenError, DoesNotFitError."""
        ...

    async def cancel(self, request_id: str, *, tenant: str, pool: str, hop: int = 0) -> None:
        """Asks the owner of this pool to cancel; returns once that is acknowledged. `hop`: the request was passed on so often
        before it came there. Raises OutcomeUnknownError, NotWrittenError.
        """
        ...


class Owners(Protocol):
    """Who knows where a request is now."""

    async def ask(self, request_id: str, pool: str) -> Answer | None:
        """The owner's answer, or the last one known, or None. Never raises, never waits longer than 300 ms or so."""
        ...

    async def why(self, request_id: str, pool: str) -> Answer | None:
        """The owner's answer with its reasons; None: there is no owner, or it is silent. Waits for a second at most."""
        ...

    async def quote(self, quote: Quote) -> Answer | None:
        """The owner's offers; None: as above."""
        ...


class Queues(Protocol):
    """How each queue stands."""

    def of(self, pool: str, tier: str) -> QueueState | None:
        """The owner's fresh word; None when there is none."""
        ...


class Results(Protocol):
    """The committed results."""

    async def find(self, request_id: str, tenant: str, *, body: bool) -> StoredResult | None:
        """The result of a request; None while there is none. Raises ResultsUnavailableError."""
        ...

    async def accepted(self, request_id: str, tenant: str) -> str | None:
        """The model of a request that is noted as accepted; None while it isn't. Raises ResultsUnavailableError."""
        ...

    async def passed_on(self, request_id: str, tenant: str) -> PassedOn | None:
        """Where a request was passed on to, as far as that is noted; None: nowhere. Raises ResultsUnavailableError."""
        ...

    async def ended(self, ids: Collection[str]) -> list[Final]:
        """Those of the ids that have a result, as Finals whose body is stored. Raises ResultsUnavailableError."""
        ...


class Listener(Protocol):
    """Hears what `replies` says of one request, from when it was made until it is left."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    async def next(self) -> Heard:
        """The next record. Raises GoneError once `hang_up` was called, StoppingError when this replica stops."""
        ...

    def hang_up(self, *_: object) -> None:
        """The caller has gone: `next` says so."""
        ...


class Replies(Protocol):
    """This replica's partition of `replies`, live."""

    def listen(self, request_id: str) -> Listener:
        """A listener for one request; make it before the request is written."""
        ...


class ReplyLog(Protocol):
    """Any partition of `replies`, from any place, for one reader."""

    async def start(self, partition: int, *, offset: int | None, since_ms: int) -> None:
        """Begin at `offset`, or at this Unix time. Raises BusError."""
        ...

    async def read(self, request_id: str) -> list[Heard]:
        """What is new of one request; empty after a second or so. Raises BusError."""
        ...

    async def stop(self) -> None:
        """Stop, wholly even when who waits is cancelled meanwhile: it holds connections and tasks."""
        ...
