"""What of other queues goes before a request, if nothing more comes? Called by core.explaining for `why` and quotes.

Counters say it: a queue is served until its counter passes the one that the request's own queue has at its turn. Exact where
a queue's requests cost the same and nothing is settled meanwhile; about right otherwise. The same holds for tenants in a tier
and for tiers in a pool.
"""

from fractions import Fraction
from typing import NamedTuple

from headrace.scheduler.decisions.pick_next import step_of


class Line(NamedTuple):
    """A queue that competes: its counter, the share that its charges are divided by, and what waits in it."""

    name: str
    counter: int
    share: Fraction
    requests: int
    cost: int


class Going(NamedTuple):
    """So many requests, and their cost in micro service units."""

    requests: int
    cost: int


def counter_at_turn(counter: int, share: Fraction, cost_ahead: int) -> int:
    """Where a queue's counter stands once so much of it has been released."""
    return counter + (step_of(cost_ahead, share.as_integer_ratio()) if cost_ahead else 0)


def goes_before(line: Line, name: str, counter: int) -> Going:
    """What of a line is released before the queue of this name is, at this counter. Of equals the first by name goes."""
    if line.requests == 0 or (line.counter, line.name) >= (counter, name):
        return Going(0, 0)
    each = max(1, line.cost // line.requests)
    turns, rest = divmod(counter - line.counter, step_of(each, line.share.as_integer_ratio()))
    turns += rest > 0 or line.name < name
    requests = min(line.requests, turns)
    return Going(requests, line.cost * requests // line.requests)
