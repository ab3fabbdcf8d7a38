"""Counts what of a heap goes before a given order, without ever walking a long queue. Used by the fair queue for answers.

Invariant: exact for the first MOST_COUNTED; further back an estimate from evenly spaced entries, so that an answer costs the
owner milliseconds however much waits.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.scheduler.decisions.pick_next import OrderKey
from headrace.scheduler.state.tracked import Phase, Tracked

MOST_COUNTED = 2_048
_SAMPLES = 2_048
Entry = tuple[OrderKey, int, Tracked]


class Before(NamedTuple):
    """So many requests, their cost in micro service units, and whether they were counted one by one."""

    requests: int
    cost: int
    exact: bool = True


def before(heap: Sequence[Entry], order: OrderKey) -> Before:
    """What of a heap's waiting entries goes before `order`."""
    charges, stack, looks = dict[str, int](), [0], 0
    while stack:
        index = stack.pop()
        if index >= len(heap) or heap[index][0] >= order:
            continue  # and so is all that stands below it in the heap
        looks += 1
        if looks > MOST_COUNTED:
            return _about(heap, order)
        request = heap[index][2]
        if request.phase is Phase.WAITING:
            charges[request.id] = request.charge
        stack += (2 * index + 1, 2 * index + 2)
    return Before(len(charges), sum(charges.values()))


def _about(heap: Sequence[Entry], order: OrderKey) -> Before:
    """An odd step, so that it doesn't follow the heap's own doubling."""
    step = len(heap) // _SAMPLES | 1
    ahead = [
        request.charge for key, _, request in heap[::step] if request.phase is Phase.WAITING and key < order
    ]
    return Before(step * len(ahead), step * sum(ahead), exact=False)
