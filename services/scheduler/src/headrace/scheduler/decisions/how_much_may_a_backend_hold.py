"""How many more attempts a worker may be given. Called by the core for each release; fails closed.

Two currencies: requests (how_many_requests_fit) and KV tokens (how_many_tokens_fit). Invariant: nothing is given to a worker
that is unhealthy, draining, or hasn't answered this owner's fence, and never more than its operator allows.
"""

from enum import StrEnum


class Binding(StrEnum):
    """What keeps a backend from getting more: what it takes in a minute, its worker's own limit, the learned one, its cache;
    or nothing but demand.
    """

    CEILING = "ceiling"
    OPERATOR = "operator"
    REQUESTS = "requests"
    CACHE = "cache"
    NOTHING = "nothing"


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


def what_binds(
    *, held: int, limit: int, learned: int | None = None, kept_back: bool = False, paced: bool = False
) -> Binding:
    """Of a worker that holds so many. `kept_back`: a request wasn't given to it of late since its cache is promised away;
    `paced`: it has been given what it takes in a minute.
    """
    if paced:
        return Binding.CEILING
    if held >= limit:
        return Binding.OPERATOR
    if learned is not None and held >= learned:
        return Binding.REQUESTS
    return Binding.CACHE if kept_back else Binding.NOTHING
