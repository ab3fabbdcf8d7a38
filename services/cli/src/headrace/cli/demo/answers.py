"""What the demo's callers read of the answers: OpenAI's shapes and headrace's own. Unknown fields are left alone."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field

from headrace.contracts.durations import ms
from headrace.contracts.lifecycle import Status, is_terminal

RUNNING = frozenset({Status.DISPATCHED.value, Status.RUNNING.value})
ENDS = frozenset(status.value for status in Status if is_terminal(status))


class Usage(Struct):
    """Token counts."""

    completion_tokens: int = 0


class Part(Struct):
    """A message or a delta."""

    content: str | None = None


class Choice(Struct):
    """The only choice: a message when whole, a delta in a stream."""

    message: Part = field(default_factory=Part)
    delta: Part = field(default_factory=Part)
    finish_reason: str | None = None


class ChatAnswer(Struct):
    """A whole answer."""

    choices: list[Choice]
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """What was said."""
        return "".join(choice.message.content or "" for choice in self.choices)


class ChatChunk(Struct):
    """One event of a stream."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None

    @property
    def text(self) -> str:
        """The piece it brings."""
        return "".join(choice.delta.content or "" for choice in self.choices)

    @property
    def finished(self) -> bool:
        """Whether it ends the choice."""
        return any(choice.finish_reason for choice in self.choices)


class Kept(Struct):
    """The 202."""

    id: str


class Times(Struct):
    """When its last attempt reached its stages."""

    started_at: datetime | None = None
    first_token_at: datetime | None = None


class Standing(Struct):
    """Where a request stands."""

    id: str
    status: str
    created_at: datetime
    tokens: int = 0
    times: Times | None = None

    @property
    def started_ms(self) -> int | None:
        """When a backend began, Unix ms; None where that isn't known."""
        started = None if self.times is None else self.times.started_at
        return None if started is None else round(started.timestamp() * 1000)

    @property
    def queued_ms(self) -> int | None:
        """From its acceptance until a backend began; None where that isn't known."""
        return self._since(None if self.times is None else self.times.started_at)

    @property
    def first_token_ms(self) -> int | None:
        """From its acceptance until the first token; None where nobody saw it, as in a plain answer."""
        return self._since(None if self.times is None else self.times.first_token_at)

    def _since(self, instant: datetime | None) -> int | None:
        return None if instant is None else ms(instant - self.created_at)

    @property
    def is_end(self) -> bool:
        """Whether it has a result."""
        return self.status in ENDS

    @property
    def is_running(self) -> bool:
        """Whether a backend has it."""
        return self.status in RUNNING


def problem_of(content: bytes) -> str:
    """The sentence in an error's body, of either face; else its beginning."""
    try:
        told = msgspec.json.decode(content)
        error = told.get("error", told)
        return (
            str(error.get("message") or error.get("detail") or error)
            if isinstance(error, dict)
            else str(error)
        )
    except (msgspec.DecodeError, AttributeError):
        return content[:120].decode(errors="replace")
