"""How many tokens an engine's KV cache will be asked for, and whether one more request fits it.

Called by core.holding for each candidate. Past-Future scheduling (arXiv 2507.10150): requests grow while they run and give
all back when they end, so what counts is the peak to come. Integers; theta in percent, instants in ms since boot.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from headrace.scheduler.decisions.how_many_requests_fit import LAG_MS, NEVER

FIRST_THETA, LEAST_THETA, MOST_THETA = 100, 80, 130
_DOWN, _UP = 5, 1
_NEAR, _PATIENT = 2, 16
"""So near to where it fell last, rising takes so many service times: a preempted prompt is computed again, and that of a long
context costs more than the place of one more request is worth.
"""


class Load(NamedTuple):
    """One request in the cache: tokens `so_far`, prompt and answer; `left`: how many more it is expected to get."""

    so_far: int
    left: int


class Forecast:
    """The peak that what is held will come to: M* = max over i of (sum of the i longest-lived so far + i * left_i).

    Sorted by what is left, descending: when the i-th ends, those before it have grown by as much as it had left. Asking costs
    O(log n), adding O(n).
    """

    def __init__(self, loads: Iterable[Load] = ()) -> None:
        inside = sorted(loads, key=lambda load: -load.left)
        self._minus_left = [-load.left for load in inside]
        self._so_far = [load.so_far for load in inside]
        self._sum_up()

    @property
    def peak(self) -> int:
        """M* of what is held, in tokens."""
        return self._most_before[-1]

    def peak_with(self, load: Load) -> int:
        """M* if this one were held, too."""
        at = bisect_left(self._minus_left, -load.left)
        own = self._sums[at] + load.so_far + (at + 1) * load.left
        behind = load.so_far + self._most_behind[at] if at < len(self._so_far) else 0
        return max(self._most_before[at], own, behind)

    def add(self, load: Load) -> None:
        """It is held from now on."""
        at = bisect_left(self._minus_left, -load.left)
        self._minus_left.insert(at, -load.left)
        self._so_far.insert(at, load.so_far)
        self._sum_up()

    def _sum_up(self) -> None:
        """Sums; the greatest M_i of the first so many; the greatest M_i + left_i from one on."""
        self._sums = [0, *accumulate(self._so_far)]
        ends = [self._sums[i] - i * minus for i, minus in enumerate(self._minus_left, 1)]
        self._most_before = [0, *accumulate(ends, max)]
        shifted = [end - minus for end, minus in zip(ends, self._minus_left, strict=True)]
        self._most_behind = list(accumulate(reversed(shifted), max))[::-1]


def fits(peak: int, kv_tokens: int, theta: int) -> bool:
    """Whether a peak of so many tokens fits a cache of `kv_tokens`, of which theta percent may be promised."""
    return 100 * peak <= theta * kv_tokens


def left_of(generated: int, mean: int, most: int, cap: int | None) -> int:
    """How many more tokens an answer is expected to get that has `generated` so far.

    `mean` and `most` (the 9th decile) are of answers like it, `cap` is the caller's. Whoever has come far goes on for longer:
    towards the 9th decile half of the way is left, and beyond it a quarter of what there is.
    """
    left = max(1, mean - generated, (most - generated) // 2, generated // 4 if generated >= mean else 0)
    return left if cap is None else max(0, min(left, cap - generated))


@dataclass(frozen=True, slots=True)
class Theta:
    """Which percent of the cache may be promised. `binding`: it has kept a request back since `clean_ms`, the last change.

    `frozen`: it has fallen, and what is held doesn't fit it yet. `failed`: what it was when it fell last; 0: it never has.
    """

    percent: int = FIRST_THETA
    clean_ms: int = NEVER
    fell_ms: int = NEVER
    binding: bool = False
    frozen: bool = False
    failed: int = 0


@dataclass(frozen=True, slots=True)
class CacheLook:
    """One look at a cache. `preempted`: requests were put out of it since the last; `waiting`: some wait for it.

    `fits`: what is held fits what is promised now; `binding`: a request was kept back by that since the last look.
    """

    service_ms: int
    preempted: bool
    waiting: bool
    fits: bool
    binding: bool


def next_theta(now: Theta, look: CacheLook, boot_ms: int) -> Theta:
    """Down by 5 on a preemption, up by 1 for each median service time without one, if it was needed; for each 16 of them near
    where it fell last.
    """
    if now.clean_ms == NEVER:
        now = replace(now, clean_ms=boot_ms)
    if now.frozen and look.fits:
        now = replace(now, frozen=False, fell_ms=boot_ms)
    if look.preempted:
        if now.frozen or not look.fits or boot_ms - now.fell_ms < LAG_MS:
            return replace(now, clean_ms=boot_ms, binding=False)
        percent = max(LEAST_THETA, now.percent - _DOWN)
        return Theta(percent, clean_ms=boot_ms, fell_ms=boot_ms, frozen=True, failed=now.percent)
    now = replace(now, binding=now.binding or look.binding)
    if look.waiting:
        return replace(now, clean_ms=boot_ms, binding=False)
    near = abs(now.percent + _UP - now.failed) <= _NEAR
    if now.binding and boot_ms - now.clean_ms >= look.service_ms * (_PATIENT if near else 1):
        return replace(now, percent=min(MOST_THETA, now.percent + _UP), clean_ms=boot_ms, binding=False)
    return now
