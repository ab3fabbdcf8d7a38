"""The KV cache: blocks of 16 tokens, private or shared by content, the idle ones kept until their room is needed.

Called by stepper alone. A block with a key holds 16 tokens that the key stands for; who asks for the same tokens again finds
it (the prefix cache). Invariant: private + shared in use + idle never exceeds `total`.
"""

from collections import OrderedDict
from collections.abc import Sequence


class BlockPool:
    """Counts blocks; their contents are only keys. `total`: how many there are."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._private = 0
        self._shared: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def used(self) -> int:
        """Blocks that running sequences hold."""
        return self._private + len(self._shared)

    @property
    def cached(self) -> int:
        """Blocks that nobody holds and that a prefix may still be found in."""
        return len(self._idle)

    def found(self, keys: Sequence[int]) -> int:
        """How many of the first blocks are cached, in use or idle."""
        shared, idle = self._shared, self._idle
        for count, key in enumerate(keys):
            if key not in shared and key not in idle:
                return count
        return len(keys)

    def fits(self, prefix: Sequence[int], private: int) -> bool:
        """Whether a sequence could hold the cached blocks `prefix` and `private` new ones."""
        woken = sum(key in self._idle for key in prefix) if prefix else 0
        return self._private + len(self._shared) + woken + private <= self.total

    def hold(self, prefix: Sequence[int], private: int) -> None:
        """Takes what `fits` said fits."""
        for key in prefix:
            self._idle.pop(key, None)
            self._shared[key] = self._shared.get(key, 0) + 1
        self.take(private)

    def take(self, private: int) -> bool:
        """Takes new blocks, forgetting the idle blocks used least lately; False when all are in use."""
        used = self._private + len(self._shared) + private
        if used > self.total:
            return False
        self._private += private
        if self._idle:
            for _ in range(used + len(self._idle) - self.total):
                self._idle.popitem(last=False)
        return True

    def share(self, key: int) -> None:
        """Makes a full private block findable; where there is one like it, that one is held instead."""
        self._private -= 1
        self._idle.pop(key, None)
        self._shared[key] = self._shared.get(key, 0) + 1

    def release(self, shared: Sequence[int], private: int) -> None:
        """Gives blocks back; the last of a sequence is forgotten first, as a beginning serves more requests."""
        self._private -= private
        for key in reversed(shared):
            holders = self._shared[key] - 1
            if holders:
                self._shared[key] = holders
            else:
                del self._shared[key]
                self._idle[key] = None

    def forget(self) -> None:
        """Empties the cache of what nobody holds, as a restart does."""
        self._idle.clear()
