"""Whether a worker's boot is dead. Called by the core for each tick it reads and for each report.

Invariant: the log decides, not a clock: a partition that is unavailable or a slow owner buries nobody.
"""

from collections.abc import Mapping

TICKS_TO_DEATH = 8


def silent_too_long(ticks_now: Mapping[int, int], ticks_at_report: Mapping[int, int]) -> bool:
    """Whether 8 ticks of one epoch, whichever, stand in the log after the boot's last report.

    Both map an epoch to the number of its distinct ticks read so far: now, and when the last report was read.
    """
    return any(n - ticks_at_report.get(epoch, 0) >= TICKS_TO_DEATH for epoch, n in ticks_now.items())


def deaf_too_long(unread_acknowledged_ms: int | None, boot_ms: int, patience_ms: int) -> bool:
    """Whether the oldest command that its read position hasn't passed was acknowledged too long ago; None: all passed."""
    return unread_acknowledged_ms is not None and boot_ms - unread_acknowledged_ms >= patience_ms
