"""One attempt's outcome, and what the owner knows of its request as it is read. Made by core.attempt_log, once for each.

Invariant: what is looked up here holds until the request is finished or let go, which is the last that is done of an outcome.
"""

from msgspec import Struct

from headrace.contracts.outcomes import AttemptRecord
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Tracked


class Outcome(Struct, frozen=True):
    """`tracked`: the request, to be read alone. `held`: the attempt of it that is in a worker's hands, whichever that is."""

    record: AttemptRecord
    tracked: Tracked | None
    held: HeldAttempt | None

    @classmethod
    def of(cls, record: AttemptRecord, state: PoolState) -> "Outcome":
        """By what is known now."""
        return cls(record, state.tracked.look(record.id), state.held.of(record.id))

    @property
    def own(self) -> HeldAttempt | None:
        """The attempt that has ended, if it is held."""
        held = self.held
        return held if held is not None and held.attempt == self.record.attempt else None
