"""May a request be passed on to another pool? Asked by core.rerouting before it begins, whoever wants it.

Invariant: never more than MOST_HOPS times, never to a pool that it has been in, and never one that has been in a worker's
hands: two pools could then run it at once.
"""

from collections.abc import Collection

from headrace.contracts.policy import PoolPolicy
from headrace.contracts.requests import MOST_HOPS, RequestRecord


def may_reroute(record: RequestRecord, to: str, pools: Collection[str], *, was_tried: bool) -> bool:
    """`pools`: those that the policy knows. `was_tried`: it was given to a worker before, or is now."""
    been_in = (*record.through, record.pool)
    return not was_tried and to in pools and to not in been_in and len(been_in) <= MOST_HOPS


def model_there(there: PoolPolicy, model: str, wanted: str | None = None) -> str | None:
    """The name that the other pool's backends know a model by. `model`: the name that its backends here know, `wanted` a name
    that callers use there. None: it isn't clear which.
    """
    if wanted is not None:
        return there.models.get(wanted)
    names = set(there.models.values())
    if model in names:
        return model
    return names.pop() if len(names) == 1 else None
