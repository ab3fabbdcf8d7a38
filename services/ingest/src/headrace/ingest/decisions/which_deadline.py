"""By when a request must start and end. Called by the service once per request.

Invariant: a caller can only make the operator's queue timeout shorter, and the smallest time to finish counts.
"""

import re
from datetime import timedelta
from typing import NamedTuple

from headrace.contracts.durations import ms, parse
from headrace.ingest.refusal import Refusal

LONGEST = timedelta(days=30)
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,6})?")


class Deadlines(NamedTuple):
    """Unix ms: start by, finish by (None: whenever)."""

    start_by_ms: int
    finish_by_ms: int | None


def which_deadline(
    accepted_ms: int,
    tier_timeout: timedelta,
    *,
    queue_timeout: timedelta | None,
    deadline: timedelta | None,
    read_timeout: timedelta | None,
) -> Deadlines:
    """From the tier's queue timeout, the caller's own two, and how long the caller's client reads."""
    start = min(tier_timeout, queue_timeout or tier_timeout)
    ends = [limit for limit in (deadline, read_timeout) if limit is not None]
    return Deadlines(accepted_ms + ms(start), accepted_ms + ms(min(ends)) if ends else None)


def duration_or_refusal(text: str | None, name: str, pointer: str | None = None) -> timedelta | None:
    """A caller's duration: `30s`, `500ms`, `10m`, or a number of seconds. Raises Refusal (422)."""
    if text is None:
        return None
    try:
        found = timedelta(seconds=float(text)) if _NUMBER.fullmatch(text) else parse(text)
    except (ValueError, OverflowError):
        found = timedelta()
    if not timedelta() < found <= LONGEST:
        sentence = f"{name} is {text[:32]!r}: write a duration of more than nothing and at most 30 days, such as 30s."
        raise Refusal(422, "invalid_duration", sentence, pointer=pointer)
    return found


def read_timeout_of(header: str | None) -> timedelta | None:
    """What OpenAI's clients say in x-stainless-read-timeout: seconds; anything else says nothing."""
    if header is None or not _NUMBER.fullmatch(header) or float(header) <= 0:
        return None
    return min(timedelta(seconds=float(header)), LONGEST)
