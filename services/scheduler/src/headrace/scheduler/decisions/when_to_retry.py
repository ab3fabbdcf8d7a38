"""Whether and when a failed attempt is tried again. Called by the core for each RetryAt and each death of a worker.

Invariant: the failure table decides; never past the deadline, never more attempts than the pool allows. A wait is a duration,
so that a clock that is put right makes no retry early or late; only a checkpoint says it as an instant.
"""

from dataclasses import dataclass
from datetime import timedelta

from headrace.contracts.durations import ms
from headrace.contracts.failures import FailureKind, FailureRule, Fault, rule_of

FIRST_DELAY, LONGEST_DELAY = timedelta(milliseconds=250), timedelta(seconds=30)
LONGEST_WAIT = timedelta(hours=1)
"""What a backend may ask for by Retry-After; whoever says more is lying, or has another clock."""
OUTAGE_DELAY = timedelta(seconds=2)
"""An outage uses up no attempt, so nothing grows with it: spread its retries over this."""


@dataclass(frozen=True, slots=True)
class Again:
    """Try again, `wait_ms` from now at the earliest; `used` attempts are used up so far."""

    wait_ms: int
    used: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further try; the request ends with this kind. `used` attempts are used up."""

    kind: FailureKind
    used: int


def when_to_retry(
    kind: FailureKind | None,
    *,
    attempts: int,
    started: bool,
    max_attempts: int,
    at_least_ms: int,
    finish_by_ms: int | None,
    wall_ms: int,
    random: float,
) -> Again | GiveUp:
    """What follows from a failed attempt. `attempts` counts it; `random` in [0, 1) jitters the whole back-off.

    A death ends nobody by its attempts: who is the killer is searched for, and the search has an end of its own. An attempt
    that never started uses up nothing; one that headrace itself handed back is tried again at once, unless
    `at_least_ms`, how long its backend asked to be spared, says otherwise.
    """
    rule = None if kind is None else rule_of(kind)
    counts = started and (rule is None or rule.uses_attempt)
    used = attempts if counts else max(0, attempts - 1)
    if rule is not None and not rule.retryable:
        return GiveUp(kind or FailureKind.ATTEMPTS_EXHAUSTED, used)
    if counts and used >= max_attempts and not (rule is not None and rule.suspect):
        return GiveUp(FailureKind.ATTEMPTS_EXHAUSTED, used)
    wait_ms = max(_pause_ms(rule, used, random, started=started), min(at_least_ms, ms(LONGEST_WAIT)))
    if finish_by_ms is not None and wall_ms + wait_ms >= finish_by_ms:
        return GiveUp(FailureKind.DEADLINE_PASSED, used)
    return Again(wait_ms, used)


def left_to_wait_ms(due_ms: int, wait_ms: int | None, wall_ms: int) -> int:
    """How much of a wait is left, by a checkpoint that calls it due at `due_ms` (Unix ms).

    Never more than it was at its beginning (`wait_ms`; None: it isn't told), however far the clocks of two owners differ.
    """
    longest = ms(LONGEST_WAIT) if wait_ms is None else wait_ms
    return min(max(0, due_ms - wall_ms), longest)


def backoff_ms(used: int, random: float) -> int:
    """Exponential from 250 ms to 30 s with full jitter: uniform in [0, bound), so that retries don't come in waves."""
    bound = min(FIRST_DELAY * 2 ** min(max(0, used - 1), 16), LONGEST_DELAY)
    return int(ms(bound) * random)


def _pause_ms(rule: FailureRule | None, used: int, random: float, *, started: bool) -> int:
    if rule is not None and not rule.uses_attempt and rule.fault is Fault.BACKEND:
        return int(ms(OUTAGE_DELAY) * random)
    return backoff_ms(used, random) if started else 0
