"""How long a queued request will wait, as far as the last half minute tells. Called for answers to queries and `queue-state`.

Invariant: costs are micro service units, rates those per second, both integers; more ahead never makes a wait shorter, a
greater rate never makes it longer. Nothing is clamped or made random here: that is done to what is sent as Retry-After.
"""

from collections.abc import Sequence
from datetime import timedelta
from fractions import Fraction
from typing import NamedTuple

WINDOW = timedelta(seconds=30)
"""What was settled within it makes the rate."""
NEEDED = 20
"""Waits that have come to their ends from which on it is known how far off estimates are."""
_MOST_PERCENT = 97
"""Taken for what 19 of 20 keep to: what comes is never quite like what came."""
_MOMENT_MS = 250
"""Added to both before they are compared: of a wait of next to nothing no estimate is many times too short."""
LONGEST_MS = 366 * 86_400_000
"""What would take longer nobody knows: where attempts only fail, next to nothing is settled, and a rate tells nothing."""


class Likely(NamedTuple):
    """A wait, ms: half of all wait no longer than `p50_ms`, 19 of 20 no longer than `p95_ms`; None: nobody knows."""

    p50_ms: int | None
    p95_ms: int | None


def off_by(waited_ms: int, expected_ms: int) -> int:
    """A wait over what was expected, in thousandths."""
    return (max(0, waited_ms) + _MOMENT_MS) * 1_000 // (expected_ms + _MOMENT_MS)


def likely(expected_ms: int | None, errors: Sequence[int]) -> Likely:
    """What is likely where so much is expected. `errors`: how far off it was of late, thousandths, the least first. Nothing
    above LONGEST_MS is told.
    """
    if expected_ms is None or len(errors) < NEEDED:
        return Likely(_known(expected_ms), None)
    middle, most = (errors[(len(errors) - 1) * percent // 100] for percent in (50, _MOST_PERCENT))
    return Likely(
        *(_known(max(0, (expected_ms + _MOMENT_MS) * each // 1_000 - _MOMENT_MS)) for each in (middle, most))
    )


def _known(told_ms: int | None) -> int | None:
    return None if told_ms is None or told_ms > LONGEST_MS else told_ms


def per_second(cost: int, over_ms: int) -> int:
    """The rate at which so much was settled over a period of milliseconds; 0 for an empty period."""
    return cost * 1_000 // over_ms if over_ms > 0 else 0


def expected_rate(own: int, pool: int, share: Fraction) -> int:
    """X: a tenant's own rate, but at least its share of the pool's: who has just come was not served at all yet."""
    return max(own, pool * share.numerator // share.denominator)


def wait_ms(backlog: int, cost: int, rate: int, *, limit: int = 0) -> int | None:
    """R = (B + c - H) / X in ms, rounded up: until a backlog B has shrunk so far that a cost c fits within H.

    With B what is ahead in its tenant's queue and H = 0 it is the time until a request starts. None where nothing was
    settled lately: no estimate is better than a wrong one.
    """
    if rate <= 0:
        return None
    return max(0, -((limit - backlog - cost) * 1_000 // rate))


def rate_milli_of(completed: int, over_ms: int) -> int:
    """Completions per 1,000 s from a count over a period of milliseconds; 0 for an empty period."""
    return completed * 1_000_000 // over_ms if over_ms > 0 else 0
