"""Says by when the next step is due though nothing happens. Asked by PoolCore at the end of each step.

Invariant: whatever falls due at an instant of its own is looked at then. What is overdue waits for the gate, or for a worker,
and wakes nobody.
"""

from headrace.scheduler.core.headroom import Headroom
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.ticking import Ticking

_LONGEST_SLEEP_MS = 50
"""Pending cancels and whatever has no instant of its own are looked at this often."""


class WhenToStep:
    """The instants at which something is due by itself."""

    def __init__(self, state: PoolState, ticking: Ticking, headroom: Headroom) -> None:
        self._state, self._ticking, self._headroom = state, ticking, headroom

    def wake_ms(self) -> int:
        """The next of them, ms since boot."""
        state, now = self._state, self._state.now
        of_day_ms = state.expiries.next_ms(), state.spilled.next_ms()
        waits = [each - now.wall_ms for each in of_day_ms if each is not None]
        ceilings = state.ceilings, state.backend_ceilings
        since_boot_ms = (
            state.delays.next_ms(), self._ticking.next_ms, self._headroom.next_ms,
            *(each.next_ms for each in ceilings),
        )  # fmt: skip
        waits += [each - now.boot_ms for each in since_boot_ms if each is not None]
        return now.boot_ms + min([_LONGEST_SLEEP_MS, *(wait for wait in waits if wait > 0)])
