"""Walks over a heap in its order, and leaves it as it is. Used by the queues, which only ever look at a few.

Costs the logarithm of how many have been looked at for each, however long the heap is.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, TypeVar

Entry = TypeVar("Entry", bound=tuple[Any, ...])


def in_order(heap: list[Entry]) -> Iterator[Entry]:
    """The entries, the least first. The heap mustn't change meanwhile, and no two entries may be equal."""
    front = [(heap[0], 0)] if heap else []
    while front:
        entry, at = heappop(front)
        yield entry
        for below in (2 * at + 1, 2 * at + 2):
            if below < len(heap):
                heappush(front, (heap[below], below))
