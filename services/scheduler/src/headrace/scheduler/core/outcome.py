"""One attempt's outcome, and what the owner knows of its request as it is read. Made by core.attempt_log, once for each.

Invariant: what is looked up here holds until the request is finished or let go, which is the last that is done of an outcome.
"""

from dataclasses import dataclass

from headrace.contracts.outcomes import AttemptRecord
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Tracked


@dataclass(slots=True, eq=False)
class Outcome:
    """`tracked`: the request, to be read alone. `held`: the attempt of it that is in a worker's hands, whichever that is;
    `own`: the same if it is the one that has ended.
    """

    record: AttemptRecord
    tracked: Tracked | None
    held: HeldAttempt | None
    own: HeldAttempt | None

    @classmethod
    def of(cls, record: AttemptRecord, state: PoolState) -> "Outcome":
        """By what is known now."""
        held = state.held.of(record.id)
        own = held if held is not None and held.attempt == record.attempt else None
        return cls(record, state.tracked.look(record.id), held, own)
