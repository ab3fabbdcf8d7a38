"""What does an answer say is left of what its backend takes? Asked by hearing for each answer whose head has come.

Reads the headers of OpenAI's API, which most hosted APIs send: `x-ratelimit-limit-`, `x-ratelimit-remaining-` and
`x-ratelimit-reset-`, of requests and of tokens. Resets are durations (`12ms`, `7.66s`, `6m0s`), seconds, or Unix time.
Invariant: whatever a header says, it costs a minute at most; what is negative, makes no sense or lies years ahead counts as
not said.
"""

import re
from collections.abc import Mapping

from headrace.contracts.clock import Now
from headrace.contracts.reports import LONGEST_RESET_MS, MOST_PER_MINUTE, Allowed, Left

_PREFIX = "x-ratelimit"
HEADERS = tuple(
    f"{_PREFIX}-{said}-{what}" for said in ("limit", "remaining", "reset") for what in ("requests", "tokens")
)
_COUNT = re.compile(r"([0-9]{1,12})(?:\.[0-9]{1,9})?")
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_UNITS_MS = {
    "d": 86_400_000.0,
    "h": 3_600_000.0,
    "m": 60_000.0,
    "s": 1_000.0,
    "ms": 1.0,
    "us": 0.001,
    "ns": 0.000_001,
}
_PART = re.compile(_NUMBER + "(d|h|ms|m|s|us|\u00b5s|\u03bcs|ns)")
_DURATION = re.compile(rf"(?:{_PART.pattern}){{1,7}}")
_UNIX = 1_000_000_000
"""Seconds from here on are an instant, not a duration."""
_LONGEST_MS = 31 * 86_400_000
_MINUTE_MS = 60_000
_LONGEST_HEADER = 64


def what_is_left(headers: Mapping[str, str], now: Now) -> Allowed | None:
    """By the names above, in lower case; None: nothing that can be used."""
    requests, tokens = (_left(headers, what, now) for what in ("requests", "tokens"))
    return None if requests is None and tokens is None else Allowed(requests=requests, tokens=tokens)


def _left(headers: Mapping[str, str], what: str, now: Now) -> Left | None:
    said = (headers.get(f"{_PREFIX}-{each}-{what}", "").strip() for each in ("limit", "remaining", "reset"))
    limit, remaining, reset = said
    most, left, reset_ms = _count(limit) or None, _count(remaining), _ms(reset, now)
    if left is None or reset_ms is None:
        return None if most is None else Left(limit=most)
    steady = most is not None and comes_back_evenly(left, most, reset_ms)
    return Left(left=left, reset_ms=min(reset_ms, LONGEST_RESET_MS), limit=most, steady=steady)


def comes_back_evenly(left: int, limit: int, reset_ms: int) -> bool:
    """Whether it takes as long to be whole again as what was taken is of a minute: so does a bucket that is filled steadily,
    as OpenAI's, at any time, and a window only by chance.
    """
    even_ms = _MINUTE_MS * max(0, limit - left) // limit
    about_ms, rounded_ms = (
        even_ms // 10 + 10,
        _MINUTE_MS // limit,
    )  # a part of a request that is left isn't said
    return even_ms - about_ms - rounded_ms <= reset_ms <= even_ms + about_ms


def _count(text: str) -> int | None:
    found = _COUNT.fullmatch(text)
    return None if found is None else min(int(found[1]), MOST_PER_MINUTE)


def _ms(text: str, now: Now) -> int | None:
    """From now; None for what is no time, or none that can be meant."""
    if len(text) > _LONGEST_HEADER:
        return None
    if re.fullmatch(_NUMBER, text):
        seconds = float(text)
        found = seconds * 1_000 - (now.wall_ms if seconds >= _UNIX else 0)
    elif _DURATION.fullmatch(text):
        found = sum(float(number) * _UNITS_MS[_ascii(unit)] for number, unit in _PART.findall(text))
    else:
        return None
    return -int(-found // 1) if 0 <= found <= _LONGEST_MS else None


def _ascii(unit: str) -> str:
    return unit if unit.isascii() else "us"
