"""Writes the ticks by which death is judged: one at a time, at an even pace while they come back.

Called by PoolCore and worker_log. Invariant: a tick that timed out is sent again under its number.
"""

from headrace.bus.messages import message_of
from headrace.bus.ports import Confirmation
from headrace.contracts.durations import ms
from headrace.contracts.reports import Tick
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState

_PERIODS_BEHIND = 3


class TickSent:
    """The token of the tick under way."""


class Ticking:
    """This owner's ticks."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._tick, self._tick_out = 0, False
        self._sent_ms = self._ticked_ms = -(10**12)

    def tick(self) -> None:
        """Write the next one when it is due."""
        state = self._state
        if self._tick_out or state.now.boot_ms < self.next_ms:
            return
        self._tick_out, self._sent_ms = True, state.now.boot_ms
        tick = Tick(epoch=state.epoch, number=self._tick)
        state.send(message_of(state.setting.place(TopicKind.WORKERS), tick), TickSent())

    def confirmed(self, confirmation: Confirmation) -> None:
        """One that timed out is sent again under its number; should both be there, they count once."""
        if confirmation.offset is None:
            self._tick_out = False
            self._ticked_ms = self._state.now.boot_ms

    def is_forged(self, tick: Tick) -> bool:
        """Whether it says that it is of this owner, which never wrote it."""
        return tick.epoch == self._state.epoch and tick.number > self._tick

    def read_back(self, tick: Tick) -> None:
        """A tick was read; perhaps it is the one under way."""
        if tick.epoch == self._state.epoch and tick.number == self._tick:
            self._tick, self._tick_out, self._ticked_ms = self._tick + 1, False, self._state.now.boot_ms

    @property
    def reads_its_own(self) -> bool:
        """Whether a tick of this owner was read back: then all stands before that `workers` held when it came."""
        return self._tick > 0

    @property
    def behind(self) -> bool:
        """Whether none was read back for so long that `workers` isn't read at its end."""
        period_ms = ms(self._state.setting.timings.tick)
        return self._state.now.boot_ms - self._ticked_ms > _PERIODS_BEHIND * period_ms

    @property
    def next_ms(self) -> int:
        """When (ms since boot) the next one is due: never at once after one that waited long, so that reports go between."""
        period_ms = ms(self._state.setting.timings.tick)
        return max(self._sent_ms + period_ms, self._ticked_ms + period_ms // 2)
