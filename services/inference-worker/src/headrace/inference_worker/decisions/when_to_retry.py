"""When may this request be tried again? Called where an attempt goes back to the queue.

Invariant: a backend's Retry-After is the minimum, never shortened; back-off on top of it is the scheduler's.
"""

from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime

from headrace.contracts.clock import Now
from headrace.contracts.durations import ms
from headrace.contracts.values import Failure

LONGEST = timedelta(hours=1)
"""A longer Retry-After is taken as this: a lying backend mustn't park a request for a year."""


def when_to_retry(failure: Failure, now: Now) -> int:
    """The earliest instant of the next try, Unix ms."""
    return now.wall_ms + (failure.retry_after_ms or 0)


def read_retry_after(header: str | None, now: Now) -> int | None:
    """A Retry-After header (seconds or an HTTP date, RFC 9110 10.2.3) in ms from now; None when absent or garbage."""
    if header is None:
        return None
    text = header.strip()
    # ten digits are three centuries, and more of them than Python converts may come
    wait = int(text[:10]) * 1000 if text.isascii() and text.isdigit() else _until(text, now)
    if wait is None:
        return None
    return max(0, min(wait, ms(LONGEST)))


def _until(text: str, now: Now) -> int | None:
    try:
        at = parsedate_to_datetime(text)
        aware = at if at.tzinfo else at.replace(tzinfo=UTC)
        return int(aware.timestamp() * 1000) - now.wall_ms
    except (ValueError, OverflowError):
        return None
