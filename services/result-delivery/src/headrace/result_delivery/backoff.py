"""When to try again after a failure: doubling waits between two bounds. Held by each part that talks to others.

Invariant: it never sleeps; the loop goes on turning and asks whether it is time.
"""

from datetime import timedelta

from headrace.contracts.durations import ms
from headrace.runtime.clock import Clock


class Backoff:
    """Waits `shortest` after the first failure and twice as long after each more, `longest` at most."""

    def __init__(self, clock: Clock, shortest: timedelta, longest: timedelta) -> None:
        self._clock = clock
        self._shortest_ms = ms(shortest)
        self._longest_ms = ms(longest)
        self._wait_ms = 0
        self._not_before_ms = 0

    @property
    def failing(self) -> bool:
        """Whether the last try failed."""
        return self._wait_ms > 0

    def due(self) -> bool:
        """Whether it is time to try."""
        return not self.failing or self._clock.now().boot_ms >= self._not_before_ms

    def failed(self) -> None:
        """A try failed; several in one wait count once."""
        if not self.due():
            return
        self._wait_ms = min(self._longest_ms, max(self._shortest_ms, 2 * self._wait_ms))
        self._not_before_ms = self._clock.now().boot_ms + self._wait_ms

    def succeeded(self) -> None:
        """A try succeeded."""
        self._wait_ms = 0
