"""What the worker needs of a backend. Implemented by adapters/backend_http.py; bytes in, bytes out.

Invariant: leaving `open`'s context ends the call at the backend, unless its answer was read to the end.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from headrace.inference_worker.decisions.classify_failure import Broken


class BrokenCallError(Exception):
    """The call broke off; `how` says in which way."""

    def __init__(self, how: Broken) -> None:
        super().__init__(str(how))
        self.how = how


@dataclass(frozen=True, slots=True)
class BackendCall:
    """One POST. `path` such as /v1/chat/completions; `streamed`: the answer is expected as server-sent events."""

    path: str
    body: bytes
    content_type: str
    streamed: bool
    headers: Mapping[str, str]


class BackendReply(Protocol):
    """An answer whose head has come."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def content_type(self) -> str:
        """The Content-Type header, printable ASCII; empty when there is none that is."""
        ...

    @property
    def retry_after(self) -> str | None:
        """The Retry-After header."""
        ...

    @property
    def limits(self) -> Mapping[str, str]:
        """The headers that say what is left of its limits, by their names in lower case."""
        ...

    def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. Raises BrokenCallError."""
        ...


class Backend(Protocol):
    """One endpoint of the pool."""

    def open(self, call: BackendCall) -> AbstractAsyncContextManager[BackendReply]:
        """Start a call; ready when the head of its answer has come. Raises BrokenCallError."""
        ...

    async def alive(self) -> bool:
        """Whether it answers its health probe now. Bounded; raises nothing."""
        ...


class Metered(Protocol):
    """The metrics of the same endpoint."""

    async def metrics(self) -> str | None:
        """Its page in Prometheus' text format; None: it has none, or doesn't answer. Bounded; raises nothing."""
        ...


class Relay(Protocol):
    """Where the events of a stream go as they come."""

    def add(self, raw: bytes, characters: int) -> None:
        """One whole event, and the length of the text after it. Never waits."""
        ...

    def goes_on_from_nothing(self) -> None:
        """What comes is the beginning of an answer, whatever was said before. Told before the first event."""
        ...
