"""Counts what goes before a given order, in a heap and in the turns of flows, without ever walking a long queue. Used by the
fair queue for answers.

Invariant: exact for the first MOST_COUNTED; further back an estimate from evenly spaced entries, so that an answer costs the
owner milliseconds however much waits.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headrace.scheduler.decisions.pick_next import OrderKey
from headrace.scheduler.decisions.who_is_ahead import Line, goes_before
from headrace.scheduler.state.flows import ALIKE, Flows
from headrace.scheduler.state.tenant_queue import TenantQueue, counts
from headrace.scheduler.state.tracked import Tracked

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
        _, number, request = heap[index]
        if counts(number, request):
            charges[request.id] = request.charge
        stack += (2 * index + 1, 2 * index + 2)
    return Before(len(charges), sum(charges.values()))


def with_turns(own: Before, queue: TenantQueue, counters: Flows, flow: int) -> Before:
    """What goes before a request of this flow in its tenant's queue. `own`: what of the flow itself does."""
    others = {each: waiting for each, waiting in queue.flows.items() if each != flow}
    if not others:
        return own
    values = {each: counters.of(each).value for each in others}
    lifted = counters.counter_when_waiting(flow, min(values.values()))
    counter = own.cost + (counters.of(flow).value if flow in queue.flows else lifted)
    lines = (Line(_name(each), values[each], ALIKE, of.waiting, of.cost) for each, of in others.items())
    going = [goes_before(line, _name(flow), counter) for line in lines]
    return Before(
        own.requests + sum(each.requests for each in going),
        own.cost + sum(each.cost for each in going),
        exact=False,
    )


def _name(flow: int) -> str:
    """Of equals the lesser number goes first."""
    return f"{flow:06}"


def _about(heap: Sequence[Entry], order: OrderKey) -> Before:
    """An odd step, so that it doesn't follow the heap's own doubling."""
    step = len(heap) // _SAMPLES | 1
    ahead = [each.charge for key, number, each in heap[::step] if key < order and counts(number, each)]
    return Before(step * len(ahead), step * sum(ahead), exact=False)
