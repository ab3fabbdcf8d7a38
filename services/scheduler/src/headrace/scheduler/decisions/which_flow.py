"""Which flow of its tenant does a request belong to? Asked by state.flows when it comes to wait, or is found in flight.

A flow is what of a tenant has one counter: the requests of one fairness key, of several, or those without a key. The first
keys have counters of their own; where there are too many of them, others share counters by a hash (McKenney, Stochastic
fairness queueing, 1990), so that no sender takes more than a bounded memory. Invariant: of one key all that waits at a time
is in one flow, or it would have two turns and lose its order.
"""

from collections.abc import Container, Mapping
from hashlib import blake2b

MOST_OWN = 256
"""Keys of a tenant in a tier that have counters of their own at a time."""
NO_KEY = 0
SHARED = range(1, 65)
"""The flows of all other keys."""
FIRST_OWN = SHARED.stop


def shared_flow(key: str) -> int:
    """The flow that a key shares with others: the same in every process, unlike Python's own hash."""
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=4).digest()
    return SHARED[int.from_bytes(digest, "big") % len(SHARED)]


def which_flow(key: str | None, own: Mapping[str, int], waiting: Container[int]) -> int | None:
    """The flow of a key; None: a new one of its own. `own`: keys that have one; `waiting`: flows of which anything waits.

    While anything waits in the flow that it would share, it stays there: some of that may be its own.
    """
    if key is None:
        return NO_KEY
    if key in own:
        return own[key]
    shared = shared_flow(key)
    return shared if shared in waiting or len(own) >= MOST_OWN else None
