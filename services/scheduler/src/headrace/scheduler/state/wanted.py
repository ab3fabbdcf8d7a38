"""How many slots a tier has wanted at one time of late: what it held and had waiting. Used by core.headroom.

Invariant: a maximum is remembered for REMEMBERED at least and twice as long at most. Not checkpointed: what a new owner finds
held or waiting counts at once.
"""

from datetime import timedelta

from headrace.contracts.durations import ms

REMEMBERED = timedelta(minutes=5)
"""Longer than the pauses in a use that goes on, and so short that a night without anybody costs nothing."""


class Wanted:
    """One tier's maxima in this span of REMEMBERED and in the one before."""

    def __init__(self) -> None:
        self._span = self._this = self._before = 0

    def saw(self, boot_ms: int, number: int) -> None:
        """So many now."""
        if self._span_at(boot_ms) != self._span:
            self._before, self._this = self._past(boot_ms), 0
            self._span = self._span_at(boot_ms)
        self._this = max(self._this, number)

    def most(self, boot_ms: int) -> int:
        """The most of late."""
        this = self._this if self._span_at(boot_ms) == self._span else 0
        return max(this, self._past(boot_ms))

    def _past(self, boot_ms: int) -> int:
        gone = self._span_at(boot_ms) - self._span
        return (self._before, self._this)[gone] if gone < 2 else 0

    @staticmethod
    def _span_at(boot_ms: int) -> int:
        return boot_ms // ms(REMEMBERED)
