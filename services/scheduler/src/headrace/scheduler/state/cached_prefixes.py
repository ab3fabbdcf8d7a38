"""What each backend's cache probably holds: beginnings of prompts, sessions, adapters. Used by core.routing.

Learnt from what was sent there; a cache drops what was used longest ago, and so does this, whose size is bounded. Where an
engine tells that it had to compute what was believed to be there, all that is older is dropped, too, and how far back the
cache reaches is learnt: for charges alone, since a request that goes to where its prompt once was loses nothing. Not
checkpointed, and forgotten with the worker's boot: a wrong belief costs time, never an answer. Invariant: both ways of
looking agree.
"""

from collections.abc import Iterable, Sequence

from headrace.contracts.prefixes import BLOCK_TOKENS, ENDS, Prefix, hashes_of
from headrace.scheduler.decisions.how_far_back_a_cache_reaches import reach_after, reaches

MOST, MOST_OF_ALL = 16_384, 131_072
"""Keys of a backend, and of all of a pool; each takes some 300 bytes."""


class CachedPrefixes:
    """Keys by boot, the one used longest ago first, and boots by key."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, int]] = {}
        """By boot: when each was used."""
        self._boots: dict[str, dict[str, None]] = {}
        self._clocks: dict[str, int] = {}
        """By boot: tokens of the prompts that it was sent."""
        self._reaches: dict[str, int] = {}
        self._tell: set[str] = set()
        """Boots whose engine has told of cached tokens: of others none says nothing."""

    def __len__(self) -> int:
        return sum(map(len, self._keys.values()))

    def used(self, boot: str, keys: Sequence[str], tokens: int = 1) -> None:
        """A prompt of so many tokens with these was sent there; the shortest first: a cache drops the longest first."""
        known = self._keys.setdefault(boot, {})
        now = self._clocks[boot] = self._clocks.get(boot, 0) + max(1, tokens)
        for key in reversed(keys):
            known.pop(key, None)
            known[key] = now
            self._boots.setdefault(key, {})[boot] = None
        most = min(MOST, MOST_OF_ALL // len(self._keys))
        while len(known) > most:
            self._drop(boot, next(iter(known)))

    def begin(self, boot: str, prefixes: Iterable[Prefix]) -> None:
        """With what a worker ran under an earlier owner, the latest last; of one that is known already it says nothing."""
        if boot not in self._keys:
            for prefix in prefixes:
                if keys := hashes_of(prefix)[: len(ENDS)]:
                    self.used(boot, keys, ENDS[len(keys) - 1] * BLOCK_TOKENS)

    def who_has(self, key: str) -> Iterable[str]:
        """The boots that have it."""
        return self._boots.get(key, ())

    def blocks_of(self, hashes: Sequence[str]) -> dict[str, int]:
        """By boot, of those that have any: of how many blocks the longest beginning is that it has."""
        found: dict[str, int] = {}
        for number in range(len(hashes) - 1, -1, -1):
            for boot in self._boots.get(hashes[number], ()):
                if boot not in found:
                    found[boot] = ENDS[number]
        return found

    def since(self, boot: str, key: str) -> int:
        """When a boot has used it last, as `were_gone` takes it."""
        return self._keys.get(boot, {}).get(key, 0)

    def age(self, boot: str, since: int) -> int:
        """How many tokens it was sent since then."""
        return self._clocks.get(boot, 0) - since

    def reaches(self, boot: str, age: int) -> bool:
        """Whether what it used so long ago is probably still there, by what its engine told of others."""
        return reaches(self._reaches.get(boot), age)

    def found(self, boot: str, age: int, *, there: bool) -> None:
        """Its engine told whether something was there that it had used so long ago."""
        reach = reach_after(self._reaches.get(boot), age, found=there)
        if reach is not None and boot in self._tell:
            self._reaches[boot] = reach

    def told(self, boot: str) -> None:
        """Its engine has told of cached tokens."""
        if boot in self._keys:
            self._tell.add(boot)

    def were_gone(self, boot: str, since: int) -> None:
        """What it used last at `since` had been dropped: so had all that it used before."""
        known = self._keys.get(boot, {})
        while boot in self._tell and known and known[oldest := next(iter(known))] <= since:
            self._drop(boot, oldest)

    def forget(self, boot: str) -> None:
        """The boot is dead."""
        for key in list(self._keys.get(boot, ())):
            self._drop(boot, key)
        for of_boot in (self._keys, self._clocks, self._reaches):
            of_boot.pop(boot, None)
        self._tell.discard(boot)

    def _drop(self, boot: str, key: str) -> None:
        del self._keys[boot][key]
        del self._boots[key][boot]
        if not self._boots[key]:
            del self._boots[key]
