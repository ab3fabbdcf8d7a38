"""Tells the log that callers are turned away because this replica is full. Called by doors/observed.py.

Invariant: one line a minute at most, however many callers come back at once; the metrics count each.
"""

from structlog.typing import FilteringBoundLogger

CODE = "overloaded"
_EVERY_MS = 60_000


class TurnedAway:
    """How many since the last line. `now_ms` is the time since boot, milliseconds."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log, self._number = log, 0
        self._told_ms: int | None = None

    def one_more(self, route: str, now_ms: int) -> None:
        """One more caller; told at once, or with those that come within a minute."""
        self._number += 1
        if self._told_ms is None or now_ms - self._told_ms >= _EVERY_MS:
            self._log.warning("callers are turned away", route=route, number=self._number)
            self._told_ms, self._number = now_ms, 0
