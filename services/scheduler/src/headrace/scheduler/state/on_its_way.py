"""What is sent to a log until that has acknowledged it: ends, barriers, and what goes to other pools. Made by core.endings,
core.log_ends and core.rerouting.

Invariant: it is on its way once at a time; what wasn't acknowledged is sent again after a while.
"""

from dataclasses import dataclass

_AGAIN_MS, _GIVES_UP_MS = 100, 60_000


@dataclass(slots=True, eq=False, kw_only=True)
class OnItsWay:
    """`under_way`: it is sent, and its confirmation is awaited. `not_before_ms`: ms since boot. `refused_since_ms`: since
    when the log has refused it each time; None: it hasn't, last time.
    """

    under_way: bool = False
    not_before_ms: int = 0
    refused_since_ms: int | None = None

    def is_due(self, boot_ms: int) -> bool:
        """Whether to send it now."""
        return not self.under_way and boot_ms >= self.not_before_ms

    def arrived(self, offset: int | None, boot_ms: int) -> bool:
        """What its confirmation says; whether it is in the log."""
        self.under_way = False
        if offset is None:
            self.not_before_ms = boot_ms + _AGAIN_MS
        return offset is not None

    def is_refused_for_good(self, boot_ms: int, *, refused: bool) -> bool:
        """Whether its log has refused it for a minute: a broker that is behind knows of a topic by then. `refused`: its last
        confirmation says so.
        """
        if not refused:
            self.refused_since_ms = None
        elif self.refused_since_ms is None:
            self.refused_since_ms = boot_ms
        return self.refused_since_ms is not None and boot_ms - self.refused_since_ms >= _GIVES_UP_MS
