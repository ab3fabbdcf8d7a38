"""How many requests more than fit are sent to a worker, so that no slot is idle while the next is on its way.

Called by state.backend_limits. Invariant: never more than a quarter of a second's work; integers.
"""

from math import isqrt

LONGEST_MS = 250


def to_send_ahead(rate_milli: int, gap_ms: int, step_ms: int) -> int:
    """p = ceil(m*(d + s) + 2.33*sqrt(m*(d + s))) with p/m <= 250 ms: 99 % of what ends in a gap is replaced.

    `rate_milli`: m, completions per 1,000 s; `gap_ms`: d, from an attempt's end to the next one's begin, the 99th percentile;
    `step_ms`: s, the engine's step. An engine ends requests at the end of a step, many at once, and takes others up at the
    begin of the next: whoever comes within a step waits for its end, so that much more has ended by then.
    """
    ended = rate_milli * (gap_ms + step_ms)  # in a gap, millionths
    root = isqrt(ended * 10**6)  # its square root, millionths
    needed = -(-(100 * ended + 233 * root) // 10**8)
    return min(needed, rate_milli * LONGEST_MS // 10**6)
