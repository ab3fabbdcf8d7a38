"""How many more attempts a worker may be given. Called by the core for each release; fails closed.

Invariant: nothing is given to a worker that is unhealthy, draining, or hasn't answered this owner's fence.
"""


def room_of(*, limit: int, held: int, healthy: bool, draining: bool, answered: bool) -> int:
    """The free slots: the worker's reported limit less what it holds, or 0 where it may get nothing at all."""
    if not healthy or draining or not answered:
        return 0
    return max(0, limit - held)
