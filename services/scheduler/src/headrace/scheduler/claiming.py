"""Takes a pool over: fence the last owner, read what it left, commit a checkpoint that says so. Driven by pool_loop.

Invariant: `state` is read only after the claim has fenced the predecessor; a failure anywhere means standing by again.
"""

from headrace.bus.ports import FencedState
from headrace.contracts.clock import Now
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.pool_state import Setting
from headrace.scheduler.core.restoring import read_state, restore
from headrace.scheduler.ports import PoolBus


class Claiming:
    """One attempt at taking a pool over."""

    def __init__(self, setting: Setting, bus: PoolBus, name: str) -> None:
        transactional_id = f"{setting.names.prefix}scheduler.{setting.pool}"
        self._setting = setting
        self.state: FencedState = bus.fenced_state(
            name, place=setting.place(TopicKind.STATE), transactional_id=transactional_id
        )
        self.core: PoolCore | None = None

    def turn(self, now: Now) -> PoolCore | None:
        """The core of the pool once it is ours; None: not yet. Raises BusError, UnusableStateError."""
        if self.core is None:
            if self.state.claim():
                self.core = PoolCore(restore(self._setting, read_state(self.state.load())))
                self.state.begin(self.core.claim(now))
            return None
        return self.core if self.state.committed() else None

    def close(self) -> None:
        """Give up."""
        self.state.close()
