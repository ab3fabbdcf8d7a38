"""How much may wait in a queue so that all of it starts within the time that its tier promises. Called for `queue-state`.

Invariant: never too little. The pool's work is counted as if all that is in flight were done already, a queue's part of it
is what it got or its share, whichever is more, and nothing is too much where all that waits in the pool is served in time.
"""

from datetime import timedelta
from fractions import Fraction
from math import ceil

from headrace.contracts.durations import ms


def most_done(settled: int, in_flight: int, over_ms: int) -> Fraction:
    """The greatest rate (cost per ms) at which work can have been done: what ended in the period and all that runs."""
    return Fraction(settled + in_flight, over_ms)


def served_in_time(pace: Fraction, part: Fraction, promised: timedelta) -> int:
    """Little's law, H = X * T: the cost that a queue is served of that gets this part of the pool's pace."""
    return ceil(pace * part * ms(promised))


def may_wait(pace: Fraction, part: Fraction, promised: timedelta, *, others: int) -> int:
    """The cost that may wait in such a queue.

    `others`: the cost of what waits in the pool's other queues; once it is served, all the pace is left for this one.
    """
    return max(served_in_time(pace, part, promised), served_in_time(pace, Fraction(1), promised) - others)
