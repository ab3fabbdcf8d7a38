"""How many more attempts a worker may be given. Called by the core for each release; fails closed.

Two currencies: requests (how_many_requests_fit) and KV tokens (how_many_tokens_fit). Invariant: nothing is given to a worker
that is unhealthy, draining, or hasn't answered this owner's fence, and never more than its operator allows.
"""


def room_of(
    *, limit: int, held: int, healthy: bool, draining: bool, answered: bool, learned: int | None = None
) -> int:
    """The free slots: the limit less what it holds, or 0 where it may get nothing at all.

    `limit` is the worker's own, which the operator sets; `learned` what its engine was found to sustain, with what is sent
    ahead. None: nothing was learned.
    """
    if not healthy or draining or not answered:
        return 0
    return max(0, (limit if learned is None else min(limit, learned)) - held)
