"""All unfinished requests that were read, by id: those in memory, and those that are spilled. Kept in core.pool_state.

Invariant: a request is in one of the two; who asks for a spilled one to change it gets it into memory, without its payload.
"""

from collections.abc import Callable, Iterable, Mapping

from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tracked import Tracked


class Requests:
    """`came_back` is told of each that was asked for while it was spilled."""

    def __init__(self, spilled: Spilled) -> None:
        self._spilled = spilled
        self._here: dict[str, Tracked] = {}
        self.here: Mapping[str, Tracked] = self._here
        """Those in memory, by id."""
        self.came_back: Callable[[Tracked], None] = lambda _tracked: None

    def __len__(self) -> int:
        return len(self._here) + len(self._spilled)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._here or request_id in self._spilled

    def __getitem__(self, request_id: str) -> Tracked:
        found = self.get(request_id)
        if found is None:
            raise KeyError(request_id)
        return found

    def __setitem__(self, request_id: str, tracked: Tracked) -> None:
        self._here[request_id] = tracked

    def get(self, request_id: str) -> Tracked | None:
        """The request itself. To read it alone, `look` costs less memory."""
        found = self._here.get(request_id)
        if found is None and (found := self._spilled.take(request_id)) is not None:
            self._here[request_id] = found
            self.came_back(found)
        return found

    def in_memory(self, request_id: str) -> Tracked | None:
        """The request itself; None where it is spilled, or not known."""
        return self._here.get(request_id)

    def look(self, request_id: str) -> Tracked | None:
        """The request, to be read alone: what is changed in it is lost where it is spilled."""
        return self._here.get(request_id) or self._spilled.look(request_id)

    def pop(self, request_id: str) -> Tracked | None:
        """It has ended."""
        found = self._here.pop(request_id, None)
        return self._spilled.take(request_id) if found is None else found

    def spill(self, tracked: Tracked) -> bool:
        """Keep its metadata alone. False: it can't be kept so, and stays as it is."""
        if not self._spilled.put(tracked):
            return False
        del self._here[tracked.id]
        return True

    def take_spilled(self, request_id: str) -> Tracked:
        """One that is spilled, into memory: its payload has come. Raises KeyError where it isn't."""
        found = self._spilled.take(request_id)
        if found is None:
            raise KeyError(request_id)
        self._here[request_id] = found
        return found

    def ids_in_memory(self) -> list[str]:
        """A copy: of what is in memory there is no more than the windows allow."""
        return list(self._here)

    def values(self) -> Iterable[Tracked]:
        """Those in memory."""
        return self._here.values()
