"""Which records may be deleted from the beginnings of a pool's logs? Asked by core.when_to_trim.

Invariant: a record goes only when a committed checkpoint doesn't need it any more and, where result-delivery reads that log,
when it has committed it.
"""

from collections.abc import Mapping, Set
from typing import TypeVar

P = TypeVar("P")


def first_needed(
    checkpointed: Mapping[P, int], delivered: Mapping[P, int], unread_by_delivery: Set[P]
) -> dict[P, int]:
    """The first offset of each log that somebody still needs. `P` names a partition.

    `checkpointed`: where the next owner would begin. `delivered`: how far result-delivery says that it is; of a log that it
    said nothing about it needs everything. `unread_by_delivery`: the logs that it doesn't read.
    """
    return {
        place: offset if place in unread_by_delivery else min(offset, delivered.get(place, 0))
        for place, offset in checkpointed.items()
    }


def undelivered(checkpointed: Mapping[P, int], delivered: Mapping[P, int], unread_by_delivery: Set[P]) -> int:
    """How many records could go, history aside, if result-delivery had committed them."""
    needed = first_needed(checkpointed, delivered, unread_by_delivery)
    return sum(offset - needed[place] for place, offset in checkpointed.items())
