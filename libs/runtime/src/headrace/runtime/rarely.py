"""Tells the log once a minute of what may happen thousands of times, and how often it did. Used where requests are refused.

Invariant: at most one line a minute for each event and subject, the first at once; metrics count each.
"""

from dataclasses import dataclass
from datetime import timedelta

from structlog.typing import FilteringBoundLogger

from headrace.contracts.durations import ms
from headrace.runtime.clock import Clock

_EVERY_MS = ms(timedelta(minutes=1))


@dataclass(slots=True)
class _Told:
    """When the next line may be, ms since boot, and how often it happened since the last."""

    next_ms: int
    number: int = 0


class Rarely:
    """Warnings of events that come in crowds. `subject` comes from a small closed set: one line a minute for each."""

    def __init__(self, log: FilteringBoundLogger, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._told: dict[tuple[str, str], _Told] = {}

    def warning(self, event: str, *, subject: str = "", times: int = 1, **fields: object) -> None:
        """So many times more; told at once, or with those that come within a minute. The fields are those of the last one.

        `times` 0 tells what is left of the last minute, if that is over.
        """
        now_ms = self._clock.now().boot_ms
        told = self._told.setdefault((event, subject), _Told(now_ms))
        told.number += times
        if told.number and now_ms >= told.next_ms:
            self._log.warning(event, number=told.number, **fields)
            told.next_ms, told.number = now_ms + _EVERY_MS, 0
