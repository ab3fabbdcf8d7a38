"""May a request be passed on to another pool, or why not? Asked by core.rerouting before it begins, whoever wants it.

Invariant: never more than MOST_HOPS times, never to a pool that it has been in, never against its caller's will, and never
one that has been in a worker's hands: two pools could then run it at once.
"""

from collections.abc import Collection

from headrace.contracts.requests import MOST_HOPS, RequestRecord
from headrace.contracts.selections import Stays


def why_it_stays(record: RequestRecord, to: str, pools: Collection[str], *, was_tried: bool) -> Stays | None:
    """None: it may go. `pools`: those that the policy knows. `was_tried`: it was given to a worker before, or is now."""
    been_in = (*record.through, record.pool)
    if to not in pools:
        return Stays.NO_POOL
    if was_tried:
        return Stays.TRIED
    if record.stays:
        return Stays.KEPT
    if to in been_in:
        return Stays.BEEN_THERE
    return Stays.TOO_MANY_POOLS if len(been_in) > MOST_HOPS else None


def may_follow(hop: int) -> bool:
    """Whether a cancel or a question that has followed its request so often may follow it once more: the request itself went
    no further, so an id that stands in two pools for each other sends nobody in circles.
    """
    return hop < MOST_HOPS
