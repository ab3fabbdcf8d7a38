"""What the demo's callers read of the answers: OpenAI's shapes and headrace's own. Unknown fields are left alone."""

from typing import Any

import msgspec
from msgspec import Struct, field

RUNNING = frozenset({"dispatched", "running"})
ENDS = frozenset({"succeeded", "failed", "expired", "cancelled", "dead_lettered"})


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


class Standing(Struct):
    """Where a request stands."""

    id: str
    status: str
    tokens: int | None = None

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
