"""One request inside the engine, as the stepper sees it: how long, how far, which blocks. Text is no part of it.

Made by server and by simulations; changed by stepper alone. Instants are microseconds of the engine's clock.
"""

from collections.abc import Sequence as Keys
from enum import IntEnum
from typing import Any

from headrace.devkit.engine.profiles import BLOCK

NEVER = 1 << 62
"""An instant that doesn't come: a sequence that hangs waits for it."""
SLICE = 4 * BLOCK
"""Characters in a block of prompt text, at 4 a token."""


class State(IntEnum):
    """Where a sequence is."""

    WAITING = 0
    RUNNING = 1
    FINISHED = 2
    ABORTED = 3


class Sequence:
    """`prompt_tokens` go in, `max_tokens` come out (0: nothing, as for an embedding).

    `keys`: of the full blocks at the beginning; `answer_key`: stands for all that follows, for this sequence's own content
    by default. `pace_us`: at least so much between two tokens; `stall_at`: after so many tokens it hangs. `owner` is the
    caller's.
    """

    __slots__ = (
        "admitted_us", "answer_key", "arrived_us", "cached_tokens", "computed", "first_us", "generated", "keys",
        "last_us", "max_tokens", "next_us", "number", "order", "owner", "pace_us", "plain", "preempted", "priority",
        "private", "prompt_tokens", "shared", "stall_at", "state",
    )  # fmt: skip

    def __init__(
        self,
        prompt_tokens: int,
        max_tokens: int,
        *,
        keys: Keys[int] = (),
        answer_key: int | None = None,
        priority: int = 0,
        pace_us: int = 0,
        stall_at: int | None = None,
        owner: Any = None,  # noqa: ANN401 - the caller's own
    ) -> None:
        self.prompt_tokens, self.max_tokens = prompt_tokens, max_tokens
        self.keys, self.answer_key, self.priority = keys, answer_key, priority
        self.pace_us, self.stall_at, self.owner = pace_us, stall_at, owner
        self.plain = not pace_us and stall_at is None
        self.number, self.order, self.state = 0, (0, 0), State.WAITING
        self.computed = self.generated = self.private = self.preempted = 0
        self.shared: list[int] = []
        self.cached_tokens = 0
        self.arrived_us = self.next_us = 0
        self.admitted_us = self.first_us = self.last_us = -1

    @property
    def length(self) -> int:
        """Tokens so far, in and out."""
        return self.prompt_tokens + self.generated

    @property
    def blocks(self) -> int:
        """How many blocks it holds."""
        return len(self.shared) + self.private

    def key_of(self, block: int) -> int:
        """The key of one of its blocks once it is full: the same for whoever has the same tokens before and in it."""
        return self.keys[block] if block < len(self.keys) else hash((self.answer_key, block))

    def cacheable(self) -> list[int]:
        """Keys of its full blocks but for the last token, which must be computed to go on."""
        return [self.key_of(block) for block in range((self.length - 1) // BLOCK)]

    def hold_back(self, pace_us: int, stall_at: int | None) -> None:
        """Gives it a pace and a place to hang, before it is added."""
        self.pace_us, self.stall_at = pace_us, stall_at
        self.plain = not pace_us and stall_at is None

    def wait_for_its_pace(self, now_us: int) -> None:
        """Sets when its next token may come."""
        self.next_us = NEVER if self.generated == self.stall_at else now_us + self.pace_us


def block_keys(text: str, salt: int = 0) -> tuple[int, ...]:
    """Keys of the full blocks of a prompt, each standing for all text up to its end. Equal in one process only."""
    keys, key = [], salt
    for end in range(SLICE, len(text) + 1, SLICE):
        key = hash((key, text[end - SLICE : end]))
        keys.append(key)
    return tuple(keys)
