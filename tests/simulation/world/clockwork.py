"""Virtual time: what is to happen when, and clocks that may be wrong. Everything in the simulated world hangs on it.

Invariant: time moves only to the next thing that happens, and things of one instant happen in the order of their planning;
so a seed is a history.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from headrace.contracts.clock import Now

WALL_MS = 1_700_000_000_000

Act = Callable[[], None]


class Clockwork:
    """The plan of what is to happen. Instants are virtual milliseconds from the beginning of the run."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._plan: list[tuple[int, int, Act]] = []
        self._number = 0

    def at(self, when_ms: int, act: Act) -> None:
        """Let this happen then; never earlier than now."""
        self._number += 1
        heappush(self._plan, (max(when_ms, self.now_ms), self._number, act))

    def after(self, delay_ms: int, act: Act) -> None:
        """Let this happen so much later."""
        self.at(self.now_ms + delay_ms, act)

    def turn(self) -> None:
        """Go to what happens next. Raises IndexError when nothing will ever happen again."""
        self.now_ms, _, act = heappop(self._plan)
        act()

    @property
    def next_ms(self) -> int:
        """When something happens next."""
        return self._plan[0][0] if self._plan else 10**12


class SimClock:
    """One machine's clocks, as headrace.runtime.clock.Clock. `wall_off_ms`: how wrong its wall clock is."""

    def __init__(self, clockwork: Clockwork, boot_ms: int) -> None:
        self._clockwork, self._boot_ms = clockwork, boot_ms
        self.wall_off_ms = 0

    def now(self) -> Now:
        """The present instant, as this machine believes."""
        now_ms = self._clockwork.now_ms
        return Now(WALL_MS + now_ms + self.wall_off_ms, now_ms + self._boot_ms)
