"""What each backend's cache probably holds: beginnings of prompts, sessions, adapters. Used by core.routing.

Learnt from what was sent there; a cache drops what was used longest ago, and so does this, whose size is bounded. Where an
engine tells that it had to compute what was believed to be there, all that is older is dropped, too. Not checkpointed, and
forgotten with the worker's boot: a wrong belief costs time, never an answer. Invariant: both ways of looking agree.
"""

from collections.abc import Iterable, Sequence

from headrace.contracts.prefixes import ENDS

MOST, MOST_OF_ALL = 16_384, 131_072
"""Keys of a backend, and of all of a pool; each takes some 300 bytes."""


class CachedPrefixes:
    """Keys by boot, the one used longest ago first, and boots by key."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, int]] = {}
        """By boot: when each was used, counted in uses."""
        self._boots: dict[str, dict[str, None]] = {}
        self._uses = 0
        self._tell: set[str] = set()
        """Boots whose engine has told of cached tokens: of others none says nothing."""

    def __len__(self) -> int:
        return sum(map(len, self._keys.values()))

    def used(self, boot: str, keys: Sequence[str]) -> None:
        """A request with these was sent there; of a prompt the shortest beginning first: a cache drops the longest first."""
        known = self._keys.setdefault(boot, {})
        self._uses += 1
        for key in reversed(keys):
            known.pop(key, None)
            known[key] = self._uses
            self._boots.setdefault(key, {})[boot] = None
        most = min(MOST, MOST_OF_ALL // len(self._keys))
        while len(known) > most:
            self._drop(boot, next(iter(known)))

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
        self._keys.pop(boot, None)
        self._tell.discard(boot)

    def _drop(self, boot: str, key: str) -> None:
        del self._keys[boot][key]
        del self._boots[key][boot]
        if not self._boots[key]:
            del self._boots[key]
