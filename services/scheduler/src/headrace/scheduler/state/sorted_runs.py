"""Sorted collections that take 8 or 16 bytes a member beside the member itself. Used by state.spilled.

Lists of short sorted lists: adding and removing move some hundred members at most, and who comes in order fills them wholly.
Invariant: no list is empty, and `lasts` holds the greatest member of each.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import chain

from headrace.scheduler.state.packed import charge_of

_MOST = 512
Pair = tuple[int, int]


class SortedRecords:
    """Packed records in the order in which they are to run, and their `cost` in micro service units. `most`: in one list."""

    __slots__ = ("_costs", "_count", "_lasts", "_most", "_runs", "cost")

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._runs: list[list[bytes]] = []
        self._lasts: list[bytes] = []
        self._costs: list[int] = []
        self._count = self.cost = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._runs)

    def add(self, record: bytes) -> None:
        """One more; no two are the same."""
        self._count += 1
        at = bisect_left(self._lasts, record)
        if at == len(self._runs):
            if not self._runs or len(self._runs[-1]) >= self._most:
                self._insert(at, [])
            at = len(self._runs) - 1
        run, cost = self._runs[at], charge_of(record)
        insort(run, record)
        self._costs[at] += cost
        self.cost += cost
        self._lasts[at] = run[-1]
        if len(run) > self._most:
            self._insert(at + 1, run[self._most // 2 :])
            del run[self._most // 2 :]
            self._costs[at] -= self._costs[at + 1]
            self._lasts[at] = run[-1]

    def remove(self, record: bytes) -> None:
        """One that is in it."""
        self._count -= 1
        at = bisect_left(self._lasts, record)
        run, cost = self._runs[at], charge_of(record)
        del run[bisect_left(run, record)]
        self._costs[at] -= cost
        self.cost -= cost
        if run:
            self._lasts[at] = run[-1]
        else:
            del self._runs[at], self._lasts[at], self._costs[at]

    def first(self) -> bytes:
        """The least. Only where there is one."""
        return self._runs[0][0]

    def before(self, key: bytes) -> tuple[int, int]:
        """How many are less than this, and what they cost."""
        at = bisect_left(self._lasts, key)
        count, cost = sum(map(len, self._runs[:at])), sum(self._costs[:at])
        if at < len(self._runs):
            part = self._runs[at][: bisect_left(self._runs[at], key)]
            count, cost = count + len(part), cost + sum(map(charge_of, part))
        return count, cost

    def _insert(self, at: int, run: list[bytes]) -> None:
        self._runs.insert(at, run)
        self._lasts.insert(at, run[-1] if run else b"")
        self._costs.insert(at, sum(map(charge_of, run)))


class SortedPairs:
    """Pairs of an instant (ms) and a key, both below 2**64, by instant. `most`: in one list."""

    __slots__ = ("_lasts", "_most", "_runs")

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._runs: list[tuple[array[int], array[int]]] = []
        self._lasts: list[Pair] = []

    def add(self, instant: int, key: int) -> None:
        """One more; no two are the same."""
        at = bisect_left(self._lasts, (instant, key))
        if at == len(self._runs):
            if not self._runs or len(self._runs[-1][0]) >= self._most:
                self._runs.append((array("Q"), array("Q")))
                self._lasts.append((0, 0))
            at = len(self._runs) - 1
        instants, keys = self._runs[at]
        where = _place_of(instants, keys, instant, key)
        instants.insert(where, instant)
        keys.insert(where, key)
        self._lasts[at] = (instants[-1], keys[-1])
        if len(instants) > self._most:
            self._split(at)

    def remove(self, instant: int, key: int) -> None:
        """One that is in it."""
        at = bisect_left(self._lasts, (instant, key))
        instants, keys = self._runs[at]
        where = _place_of(instants, keys, instant, key)
        del instants[where], keys[where]
        if instants:
            self._lasts[at] = (instants[-1], keys[-1])
        else:
            del self._runs[at], self._lasts[at]

    def first(self) -> Pair | None:
        """The earliest."""
        if not self._runs:
            return None
        instants, keys = self._runs[0]
        return instants[0], keys[0]

    def until(self, instant: int, most: int) -> list[int]:
        """The keys of those that are due at this instant, earliest first, so many at most; they stay in."""
        found: list[int] = []
        for instants, keys in self._runs:
            found += keys[: bisect_right(instants, instant)]
            if instants[-1] > instant or len(found) >= most:
                break
        return found[:most]

    def after(self, pair: Pair, most: int) -> list[Pair]:
        """Those that come after this one, which needn't be in it; in order, so many at most."""
        found: list[Pair] = []
        for at in range(bisect_right(self._lasts, pair), len(self._runs)):
            instants, keys = self._runs[at]
            where = 0 if found else _place_of(instants, keys, *pair)
            where += not found and where < len(keys) and (instants[where], keys[where]) == pair
            stop = where + most - len(found)
            found += zip(instants[where:stop], keys[where:stop], strict=True)
            if len(found) >= most:
                break
        return found

    def _split(self, at: int) -> None:
        half = self._most // 2
        instants, keys = self._runs[at]
        self._runs.insert(at + 1, (instants[half:], keys[half:]))
        self._lasts.insert(at + 1, self._lasts[at])
        self._runs[at] = (instants[:half], keys[:half])
        self._lasts[at] = (instants[half - 1], keys[half - 1])


def _place_of(instants: "array[int]", keys: "array[int]", instant: int, key: int) -> int:
    low = bisect_left(instants, instant)
    return bisect_left(keys, key, low, bisect_right(instants, instant, low))
