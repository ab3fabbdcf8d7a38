"""Tells the log once a minute of what may happen thousands of times, and how often it did. Used where requests are refused.

Invariant: at most one line a minute for each event and subject, the first at once; metrics count each.
"""

from dataclasses import dataclass
from datetime import timedelta

from structlog.typing import FilteringBoundLogger

from headrace.runtime.clock import Clock

_EVERY = timedelta(minutes=1)


@dataclass(slots=True)
class _Told:
    """When the last line was, ms since boot, and how often it happened since."""

    at_ms: int
    number: int = 0


class Rarely:
    """Warnings of events that come in crowds. `subject` comes from a small closed set: one line a minute for each."""

    def __init__(self, log: FilteringBoundLogger, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._told: dict[tuple[str, str], _Told] = {}

    def warning(self, event: str, *, subject: str = "", **fields: object) -> None:
        """Once more; told at once, or with those that come within a minute. The fields are those of the last one."""
        now_ms = self._clock.now().boot_ms
        told = self._told.get((event, subject))
        if told is None:
            told = self._told[event, subject] = _Told(now_ms - _EVERY // timedelta(milliseconds=1))
        told.number += 1
        if (now_ms - told.at_ms) >= _EVERY // timedelta(milliseconds=1):
            self._log.warning(event, number=told.number, **fields)
            told.at_ms, told.number = now_ms, 0
