"""Whose attempt is stopped so that a more urgent tier gets its slot. Called by core.headroom.

Invariant: only work of preemptible tiers, nobody in vain more than twice, and never one that is tried apart. First the one
whose stop costs least: what must be computed again, and of equals the one released last.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import MAX_TEXT_BYTES
from headrace.contracts.policy import CostWeights

_BYTES = 4
"""Of a token, in the mean: as good as it must be to tell the long from the too long."""
MOST_TIMES = 2
"""So often a request loses what it has said, or is stopped before it has said anything new."""


class Running(NamedTuple):
    """An attempt in a worker's hands. `costs`: what is computed again if it is stopped, in micro service units; `times`: how
    often its request was preempted in vain before.
    """

    attempt: AttemptId
    id: str
    costs: int
    times: int
    preemptible: bool
    tried_apart: bool = False


def stop_costs(prompt: int, answer: int, weights: CostWeights, *, kept: bool) -> int:
    """What is computed again of a request with a prompt and an answer so far of so many tokens. `kept`: its text is, unless
    it is too long, and only read again, with the prompt; else it is all said again.
    """
    kept = kept and answer * _BYTES <= MAX_TEXT_BYTES
    return prompt * weights.prompt + answer * (weights.prompt if kept else weights.completion)


def whom_to_preempt(running: Iterable[Running], number: int) -> list[Running]:
    """At most so many, the one that costs least first."""
    able = [each for each in running if each.preemptible and not each.tried_apart and each.times < MOST_TIMES]
    return sorted(able, key=lambda each: (each.costs, tuple(-part for part in each.attempt)))[
        : max(0, number)
    ]
