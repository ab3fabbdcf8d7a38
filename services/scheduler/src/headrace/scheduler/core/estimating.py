"""What is expected of a request, learnt from what came of others. Called by core.dispatching and core.attempt_log.

Invariant: only answers that came to their own end teach how long answers are.
"""

from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord
from headrace.contracts.requests import RequestRecord
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_cost import Length, alike, expected_cost, is_told, spent_cost


class Estimating:
    """Expectations."""

    def __init__(self, state: PoolState) -> None:
        self._state = state

    def length_of(self, record: RequestRecord) -> Length:
        """How long each choice of its answer is expected to be."""
        return self._state.lengths.of(alike(record))

    def charge_of(self, record: RequestRecord) -> int:
        """What it is charged when it is dispatched now."""
        return expected_cost(record, self.length_of(record), self._state.setting.pool_policy.cost)

    def spent(self, record: AttemptRecord) -> int:
        """What an attempt that was begun has spent; where nobody said, what it was charged."""
        held = self._state.held.of(record.id)
        untold = record.status is Status.SUCCEEDED and not is_told(record.usage)
        if untold and held is not None and held.attempt == record.attempt:
            return held.charge
        return spent_cost(record.usage, self._state.setting.pool_policy.cost)

    def learn(self, record: AttemptRecord) -> None:
        """From an attempt. Call while its request is still tracked."""
        tracked = self._state.tracked.get(record.id)
        if tracked is None or record.status is not Status.SUCCEEDED or not is_told(record.usage):
            return
        tokens = record.usage.completion_tokens // max(1, tracked.record.choices)
        self._state.lengths.learn(alike(tracked.record), tokens)
