"""Those who wait for a place in the batch, in order. Called by stepper alone.

The order is that of `Sequence.order`: urgency first if it counts, then arrival, so that who was preempted is before all who
arrived later. Invariant: `len` counts those who haven't left.
"""

import heapq
from collections.abc import Iterator

from headrace.devkit.engine.sequences import Sequence, State


class Waiting:
    """The queue. Those who leave stay in it, marked, until they'd be next."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int], Sequence]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sequence]:
        return (sequence for _, sequence in self._heap if sequence.state is State.WAITING)

    def add(self, sequence: Sequence) -> None:
        """Puts it at its place."""
        sequence.state = State.WAITING
        self._count += 1
        heapq.heappush(self._heap, (sequence.order, sequence))

    def leave(self) -> None:
        """One who waits is no longer WAITING."""
        self._count -= 1

    def first(self) -> Sequence:
        """Who is next; there must be one."""
        while self._heap[0][1].state is not State.WAITING:
            heapq.heappop(self._heap)
        return self._heap[0][1]

    def pop(self) -> None:
        """Takes out who `first` named."""
        heapq.heappop(self._heap)
        self._count -= 1
