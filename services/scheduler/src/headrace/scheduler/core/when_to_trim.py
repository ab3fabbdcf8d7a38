"""Says which records of `requests`, `attempts` and `control` are to be deleted, every few seconds. Driven by PoolCore.

Invariant: what is deleted lies below what a committed checkpoint says and below what result-delivery has told, less the
history that an operator wants; so nothing unfinished and nothing unread goes, however long result-delivery is away.
"""

from collections.abc import Mapping

from headrace.bus.messages import Place
from headrace.contracts.durations import ms
from headrace.contracts.how_far_to_trim import Trimmed
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.what_to_trim import first_needed, undelivered


class WhenToTrim:
    """One question at a time."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._trimmed: Trimmed[Place] = Trimmed(state.setting.policy.topics.history)
        self._unread = frozenset({state.setting.place(TopicKind.CONTROL)})
        self._asked = False
        self._next_ms: int | None = None

    def due(self) -> None:
        """Let this step delete what may go, when it is time. Call only past the gate."""
        state, now_ms = self._state, self._state.now.boot_ms
        period = ms(state.setting.timings.trim)
        if self._next_ms is None:
            self._next_ms = now_ms + period
        if self._asked or now_ms < self._next_ms:
            return
        self._next_ms = now_ms + period
        state.out.undelivered = undelivered(state.checkpointed, state.delivered, self._unread)
        needed = first_needed(state.checkpointed, state.delivered, self._unread)
        state.out.trim = self._trimmed.due(needed)
        self._asked = bool(state.out.trim)

    def done(self, begins: Mapping[Place, int]) -> None:
        """The brokers have answered where the logs begin now; nothing where they couldn't."""
        self._asked = False
        self._state.count(Counted.TRIMMED_RECORDS, self._trimmed.done(begins))
