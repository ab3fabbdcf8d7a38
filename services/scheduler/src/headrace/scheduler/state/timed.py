"""Requests by an instant at which something is due: expiries and retries. Used by the core.

Invariant: lazy deletion; an entry counts only while the request still has that instant, so nothing is removed in place.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from headrace.scheduler.state.tracked import Tracked

_SLACK = 1024


class Timed:
    """A heap of requests by ms of one clock. `instant_of` says when a request is due now, None for never."""

    def __init__(self, instant_of: Callable[[Tracked], int | None]) -> None:
        self._instant_of = instant_of
        self._heap: list[tuple[int, int, Tracked]] = []
        self._entries = 0
        self._clean_at = _SLACK

    def put(self, request: Tracked) -> None:
        """Enter it under its present instant. Call again whenever that changes."""
        instant = self._instant_of(request)
        if instant is not None:
            self._entries += 1
            heappush(self._heap, (instant, self._entries, request))
        if len(self._heap) > self._clean_at:
            self._clean()

    def due(self, now_ms: int) -> list[Tracked]:
        """Those whose instant has come, earliest first, each once however often it was entered; they are taken out."""
        found: dict[Tracked, None] = {}
        while self._heap and self._heap[0][0] <= now_ms:
            instant, _, request = heappop(self._heap)
            if self._instant_of(request) == instant:
                found[request] = None
        return list(found)

    def first(self) -> Tracked | None:
        """The one whose instant is the earliest; it stays in."""
        while self._heap and self._instant_of(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def next_ms(self) -> int | None:
        """The earliest instant entered, which may no longer count."""
        return self._heap[0][0] if self._heap else None

    def _clean(self) -> None:
        """Let go of payloads that nobody needs: an entry may lie here for a day."""
        self._heap = [entry for entry in self._heap if self._instant_of(entry[2]) == entry[0]]
        heapify(self._heap)
        self._clean_at = 2 * len(self._heap) + _SLACK
