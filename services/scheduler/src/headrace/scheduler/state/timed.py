"""Requests by an instant at which something is due: expiries and retries. Used by the core.

Invariant: lazy deletion; an entry counts only while its request is in memory and still has that instant, so nothing is
removed in place. It may lie here for a day, so it holds no more of its request than the id: payloads go with those who end.
"""

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush

from headrace.scheduler.state.tracked import Tracked

_SLACK = 1024
_Entry = tuple[int, int, str]


class Timed:
    """A heap of requests by ms of one clock. `instant_of` says when a request is due now, None for never; `here` has all
    requests that are in memory, by id.
    """

    def __init__(self, instant_of: Callable[[Tracked], int | None], here: Mapping[str, Tracked]) -> None:
        self._instant_of, self._here = instant_of, here
        self._heap: list[_Entry] = []
        self._entries = 0

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, request: Tracked) -> None:
        """Enter it under its present instant. Call again whenever that changes."""
        instant = self._instant_of(request)
        if instant is not None:
            self._entries += 1
            heappush(self._heap, (instant, self._entries, request.record.id))

    def due(self, now_ms: int) -> list[Tracked]:
        """Those whose instant has come, earliest first, each once however often it was entered; they are taken out."""
        self._tidy()
        found: dict[Tracked, None] = {}
        while self._heap and self._heap[0][0] <= now_ms:
            request = self._request_of(heappop(self._heap))
            if request is not None:
                found[request] = None
        return list(found)

    def first(self) -> Tracked | None:
        """The one whose instant is the earliest; it stays in."""
        self._tidy()
        while self._heap:
            request = self._request_of(self._heap[0])
            if request is not None:
                return request
            heappop(self._heap)
        return None

    def next_ms(self) -> int | None:
        """The earliest instant entered, which may no longer count."""
        return self._heap[0][0] if self._heap else None

    def _request_of(self, entry: _Entry) -> Tracked | None:
        """Whose entry it is; None: it no longer counts."""
        request = self._here.get(entry[2])
        return request if request is not None and self._instant_of(request) == entry[0] else None

    def _tidy(self) -> None:
        """Let go of entries that no longer count, where there are many; of each request one is enough. Called each second at
        least.
        """
        if len(self._heap) > 2 * len(self._here) + _SLACK:
            counting = (entry for entry in self._heap if self._request_of(entry) is not None)
            self._heap = list({entry[2]: entry for entry in counting}.values())
            heapify(self._heap)
