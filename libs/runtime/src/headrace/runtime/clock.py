"""Where time comes from. Built once in each `__main__.py` and handed on; decisions get a `Now` and never a clock.

Invariant: this is the only module that reads the wall clock.
"""

import time
from datetime import timedelta
from typing import Protocol

from headrace.contracts.clock import Now
from headrace.contracts.durations import ms

_NS_PER_MS = 1_000_000


class Clock(Protocol):
    """Says what time it is, on both clocks at once."""

    def now(self) -> Now:
        """The present instant: Unix time and time since boot, in whole milliseconds."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Now:
        """The present instant."""
        return Now(wall_ms=time.time_ns() // _NS_PER_MS, boot_ms=_since_boot_ns() // _NS_PER_MS)


class ManualClock:
    """A clock for tests and simulations: it stands still until told to move."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, boot_ms: int = 1_000_000) -> None:
        self._now = Now(wall_ms=wall_ms, boot_ms=boot_ms)

    def now(self) -> Now:
        """The instant it was last moved to."""
        return self._now

    def advance(self, by: timedelta) -> Now:
        """Lets `by` go by on both clocks and returns the new instant; whole milliseconds only."""
        step = ms(by)
        if step < 0:
            raise ValueError(
                "time since boot never runs backwards; use jump_wall() to turn the wall clock back"
            )
        self._now = Now(wall_ms=self._now.wall_ms + step, boot_ms=self._now.boot_ms + step)
        return self._now

    def jump_wall(self, by: timedelta) -> Now:
        """Moves the wall clock alone, as an operator or NTP does; `by` may be negative."""
        step = ms(by)
        self._now = Now(wall_ms=self._now.wall_ms + step, boot_ms=self._now.boot_ms)
        return self._now


def _since_boot_ns() -> int:
    """CLOCK_BOOTTIME goes on while a machine is suspended; macOS and others have only the monotonic clock."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boottime is None else time.clock_gettime_ns(boottime)
