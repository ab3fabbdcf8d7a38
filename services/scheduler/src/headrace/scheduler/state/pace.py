"""How fast a pool works while more waits than it can hold: what `queue-state` measures queues by. Used by core.telling.

Invariant: only half minutes in which something ran and something waited from end to end count. A pool with too little to do
shows how much was asked of it and not what it can do, and one that has just been taken over shows nothing yet.
"""

from collections import deque
from datetime import timedelta
from fractions import Fraction

from headrace.contracts.durations import ms
from headrace.scheduler.decisions.estimate_wait import WINDOW

REMEMBERED = timedelta(minutes=5)
"""Of work, so that an outage makes no queue shorter: it slows the half minutes it falls into, and this outlasts them."""


class Pace:
    """The greatest rate (cost per ms) of the last minutes in which the pool was full. Not checkpointed."""

    def __init__(self) -> None:
        self._full_since_ms: int | None = None
        self._looked_ms = 0
        self._worked_ms = 0
        self._greatest: deque[tuple[int, Fraction]] = deque()
        """Falling rates, each greater than all that were seen after it, by the time worked until then."""

    def look(self, boot_ms: int, rate: Fraction, *, full: bool) -> None:
        """At this rate it worked over the last half minute. `full`: something runs now and something waits."""
        if not full:
            self._full_since_ms = None
            return
        if self._full_since_ms is None:
            self._full_since_ms = self._looked_ms = boot_ms
        self._worked_ms += boot_ms - self._looked_ms
        self._looked_ms = boot_ms
        if boot_ms - self._full_since_ms >= ms(WINDOW):
            self._remember(rate)

    @property
    def rate(self) -> Fraction | None:
        """None while it isn't known."""
        return self._greatest[0][1] if self._greatest else None

    def _remember(self, rate: Fraction) -> None:
        while self._greatest and self._greatest[-1][1] <= rate:
            self._greatest.pop()
        self._greatest.append((self._worked_ms, rate))
        while self._greatest[0][0] < self._worked_ms - ms(REMEMBERED):
            self._greatest.popleft()
