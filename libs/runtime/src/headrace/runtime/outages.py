"""Says once that something doesn't work, and once that it works again. Used for what a service tries again and again.

Invariant: an outage is two log lines for each thing that it stops, however long it lasts and however often we try.
"""

from structlog.typing import FilteringBoundLogger


class Outages:
    """What doesn't work just now, by subject."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._with: set[str] = set()

    def say(self, subject: str, what: str, reason: str) -> None:
        """It doesn't work, this time as before."""
        if subject not in self._with:
            self._with.add(subject)
            self._log.warning(what, subject=subject, reason=reason)

    def over(self, subject: str) -> None:
        """It works."""
        if subject in self._with:
            self._with.discard(subject)
            self._log.info("works again", subject=subject)
