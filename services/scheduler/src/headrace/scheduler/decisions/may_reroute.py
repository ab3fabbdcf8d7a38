"""May a request be passed on to another pool? Asked by core.rerouting before it begins, whoever wants it.

Invariant: never more than MOST_HOPS times, never to a pool that it has been in, and never one that has been in a worker's
hands: two pools could then run it at once.
"""

from collections.abc import Collection

from headrace.contracts.requests import MOST_HOPS, RequestRecord


def may_reroute(record: RequestRecord, to: str, pools: Collection[str], *, was_tried: bool) -> bool:
    """`pools`: those that the policy knows. `was_tried`: it was given to a worker before, or is now."""
    been_in = (*record.through, record.pool)
    return not was_tried and to in pools and to not in been_in and len(been_in) <= MOST_HOPS


def may_follow(hop: int) -> bool:
    """Whether a cancel or a question that has followed its request so often may follow it once more: the request itself went
    no further, so an id that stands in two pools for each other sends nobody in circles.
    """
    return hop < MOST_HOPS
