"""Durations as people write them: `30s`, `500ms`, `1h30m`, or ISO 8601 `PT30S`; and as records count them, in milliseconds.

Invariant: a number without a unit is refused, and `parse(render(d)) == d` for every duration of whole microseconds.
"""

import re
from datetime import timedelta

_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|d|h|m|s)", re.ASCII)
_WHOLE = re.compile(rf"(?:{_PART.pattern}\s*)+", re.ASCII)
_ISO = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?=\d)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_EXPECTED = 'a duration with its unit, such as "500ms", "30s", "10m", "1h30m" or "PT30S"'


def parse(value: object) -> timedelta:
    """The duration that `value` says; raises ValueError with a sentence. A timedelta passes unchanged."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        text = value.strip()
        if _WHOLE.fullmatch(text):
            return _sum(_PART.findall(text))
        iso = _ISO.fullmatch(text.upper())
        if iso is not None and any(iso.groups()):
            return _sum([(number, unit) for unit, number in iso.groupdict(default="0").items()])
    raise ValueError(f"expected {_EXPECTED}")


def ms(duration: timedelta) -> int:
    """Whole milliseconds, as records and clocks count them; what is left over is dropped."""
    return duration // _UNITS["ms"]


def us(duration: timedelta) -> int:
    """Microseconds: what timedelta itself counts in, so nothing is left over."""
    return duration // _UNITS["us"]


def render(duration: timedelta) -> str:
    """The shortest spelling `parse` takes back, largest unit first: `90s` is `1m30s`, nothing is `0s`."""
    rest, parts = duration, []
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _sum(parts: list[tuple[str, str]]) -> timedelta:
    try:
        return sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"expected {_EXPECTED}, and less than a million years") from None
