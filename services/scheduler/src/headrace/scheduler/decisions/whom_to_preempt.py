"""Whose attempt is stopped so that a more urgent tier gets its slot. Called by core.headroom.

Invariant: only work of preemptible tiers, nobody more than twice, and never one that is tried apart. What is lost is least
where least is done: the one with the fewest tokens, and of equals the one released last.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.contracts.ids import AttemptId

MOST_TIMES = 2


class Running(NamedTuple):
    """An attempt in a worker's hands; `times`: how often its request was preempted before."""

    attempt: AttemptId
    id: str
    tokens: int
    times: int
    preemptible: bool
    tried_apart: bool = False


def whom_to_preempt(running: Iterable[Running], number: int) -> list[Running]:
    """At most so many, the one that costs least first."""
    able = [each for each in running if each.preemptible and not each.tried_apart and each.times < MOST_TIMES]
    return sorted(able, key=lambda each: (each.tokens, tuple(-part for part in each.attempt)))[
        : max(0, number)
    ]
