"""How fast a pool has been of late: time to the first token by the size of the prompt, and time of each further token.

Used by core.estimating. Milliseconds, integers. Invariant: bounded, and forgotten as a whole once nothing has been measured
for a while: an estimate that is too long keeps requests out, so that nothing is measured which could mend it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from headrace.contracts.durations import ms

_LATEST = 64
NEEDED = 8
"""Measurements without which nothing is said."""
FORGOTTEN_AFTER = timedelta(seconds=10)
"""Without a new measurement, or twice as long as the longest attempt of late, which is the longer."""


class Speed(NamedTuple):
    """`first_ms`: until the first token of an empty prompt; `prompt_us`, `token_us`: for each further token."""

    first_ms: int
    prompt_us: int
    token_us: int

    def takes_ms(self, prompt_tokens: int, answer_tokens: int) -> int:
        """t(x): how long until the last of so many tokens, from the moment it is sent."""
        further = max(0, answer_tokens - 1)
        return self.first_ms + (prompt_tokens * self.prompt_us + further * self.token_us) // 1_000


class _Measured(NamedTuple):
    prompt_tokens: int
    first_ms: int | None
    whole_ms: int
    token_us: int | None


class Speeds:
    """The latest measurements of one pool."""

    def __init__(self) -> None:
        self._latest: deque[_Measured] = deque(maxlen=_LATEST)
        self._last_ms = 0
        self._found: Speed | None = None

    def took(
        self, *, prompt_tokens: int, first_ms: int | None, whole_ms: int, answer_tokens: int, boot_ms: int
    ) -> None:
        """An attempt made so many tokens. `prompt_tokens`: those that no cache had; `first_ms`: until the first token, where
        that is known; where it isn't, all tokens are taken to have come as fast as they did in the mean.
        """
        further, began_ms = answer_tokens - 1, 0 if first_ms is None else first_ms
        if further <= 0:
            self._latest.append(
                _Measured(prompt_tokens, whole_ms if first_ms is None else first_ms, whole_ms, None)
            )
        else:
            token_us = (whole_ms - began_ms) * 1_000 // further
            self._latest.append(_Measured(prompt_tokens, first_ms, whole_ms, token_us))
        self._last_ms, self._found = boot_ms, None

    def now(self, boot_ms: int) -> Speed | None:
        """The speed; None: it isn't known."""
        if self._latest and boot_ms - self._last_ms > self._patience_ms():
            self._latest.clear()
        if len(self._latest) < NEEDED:
            return None
        if self._found is None:
            self._found = _speed_of(self._latest)
        return self._found

    def _patience_ms(self) -> int:
        return max(ms(FORGOTTEN_AFTER), 2 * max(each.whole_ms for each in self._latest))


def _speed_of(measured: Iterable[_Measured]) -> Speed:
    """Medians throughout, so that a few odd attempts move nothing."""
    firsts = [(m.prompt_tokens, m.first_ms) for m in measured if m.first_ms is not None]
    tokens = [m.token_us for m in measured if m.token_us is not None]
    first_ms, prompt_us = _line(sorted(firsts)) if firsts else (0, 0)
    return Speed(first_ms, prompt_us, _median(tokens) if tokens else 0)


def _line(points: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Tukey's resistant line through (prompt tokens, ms), by tokens: its value at none, and us a token. Its slope is that
    between the middles of the outer thirds.
    """
    third = -(-len(points) // 3)
    (low, low_ms), (high, high_ms) = (
        (_median([x for x, _ in part]), _median([y for _, y in part]))
        for part in (points[:third], points[-third:])
    )
    slope_us = max(0, high_ms - low_ms) * 1_000 // (high - low) if high > low else 0
    return max(0, _median([y - x * slope_us // 1_000 for x, y in points])), slope_us


def _median(values: Sequence[int]) -> int:
    return sorted(values)[(len(values) - 1) // 2]
