"""Which offsets of one request partition are finished: a prefix, and bitmaps of 4,096 beyond it.

Used by state.partitions, and by state.read_ahead while standing by. Invariant: everything below `prefix` is finished,
`prefix` itself isn't.
"""

from collections.abc import Mapping

BLOCK = 4096
_FULL = (1 << BLOCK) - 1


class FinishedOffsets:
    """A growing set of offsets. A block's bitmap is one integer: bit i is offset block + i."""

    def __init__(self, prefix: int = 0, beyond: Mapping[int, bytes] | None = None) -> None:
        self.prefix = prefix
        self._blocks = {block: int.from_bytes(bits, "little") for block, bits in (beyond or {}).items()}
        self._advance()

    def __contains__(self, offset: int) -> bool:
        if offset < self.prefix:
            return True
        block = offset - offset % BLOCK
        return bool(self._blocks.get(block, 0) >> (offset - block) & 1)

    def add(self, offset: int) -> bool:
        """Mark as finished. False when it was already."""
        if offset in self:
            return False
        block = offset - offset % BLOCK
        self._blocks[block] = self._blocks.get(block, 0) | 1 << (offset - block)
        if offset == self.prefix:
            self._advance()
        return True

    @property
    def end(self) -> int:
        """After the greatest finished offset."""
        top = max(self._blocks, default=None)
        return self.prefix if top is None else max(self.prefix, top + self._blocks[top].bit_length())

    def bitmaps(self) -> dict[int, bytes]:
        """Blocks beyond the prefix, each as bytes, least significant bit first, without trailing zeros."""
        return {
            block: bits.to_bytes((bits.bit_length() + 7) // 8, "little")
            for block, bits in sorted(self._blocks.items())
        }

    def _advance(self) -> None:
        """Move the prefix over all that is finished, and drop the blocks below it."""
        while (block := self.prefix - self.prefix % BLOCK) in self._blocks:
            rest = self._blocks[block] >> (self.prefix - block)
            ones = _trailing_ones(rest)
            self.prefix += ones
            if self.prefix < block + BLOCK:
                break
        current = self.prefix - self.prefix % BLOCK
        for block in [block for block in self._blocks if block < current]:
            del self._blocks[block]
        low = self._blocks.get(current, 0)
        if low and not low >> (self.prefix - current):
            del self._blocks[current]


def _trailing_ones(bits: int) -> int:
    inverted = ~bits & (_FULL << 1 | 1)
    return (inverted & -inverted).bit_length() - 1
