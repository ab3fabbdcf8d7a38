"""Gives the pool up in good order: ends what was begun, then one last checkpoint that says `released`. Driven by PoolCore.

Invariant: nothing is released and no end begun once it has started; the last checkpoint is committed before anybody else can
take it for the last.
"""

from datetime import timedelta

from headrace.contracts.durations import ms
from headrace.scheduler.core.checkpointing import Checkpoints
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.pool_state import PoolState

_FINISH_WITHIN = timedelta(milliseconds=300)
"""A terminal record and its attempt belong together; what isn't acknowledged by then the successor does again."""


class Leaving:
    """Begins once, and only ever ends with the pool given up."""

    def __init__(self, state: PoolState, endings: Endings, checkpoints: Checkpoints) -> None:
        self._state, self._endings, self._checkpoints = state, endings, checkpoints
        self._since_ms: int | None = None
        self._successor: str | None = None
        self._last_sent = False

    def begin(self, successor: str | None = None) -> None:
        """Start to leave."""
        if self._since_ms is None:
            self._since_ms, self._successor = self._state.now.boot_ms, successor

    @property
    def under_way(self) -> bool:
        """Whether the pool is being given up."""
        return self._since_ms is not None

    def turn(self) -> None:
        """Begin the last checkpoint as soon as nothing is half done and none is under way; say so when it is committed."""
        state = self._state
        if self._since_ms is None or self._checkpoints.under_way:
            return
        if self._last_sent:
            state.out.released = True
        elif not self._endings.begun or state.now.boot_ms - self._since_ms >= ms(_FINISH_WITHIN):
            self._last_sent = True
            state.out.checkpoint = self._checkpoints.release(self._successor)
