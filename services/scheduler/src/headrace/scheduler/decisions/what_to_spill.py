"""Which requests are kept whole in memory, and which payloads are read again, in which runs? Asked by core.spilling.

A request that is spilled is known by its metadata alone; its payload stands in the log. Invariant: a tenant holds no more of
its partition's window than its bound, nor more than it leaves free, so that nobody fills the window for its neighbours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Amount(NamedTuple):
    """So many requests, with so many bytes in memory."""

    records: int
    size: int


@dataclass(frozen=True, slots=True)
class SpillBounds:
    """`records`, `size`: what a tenant may have waiting in memory, whole, in one tier; bytes. `reach`: so many of whose turn
    is next are read again whatever the window. `run`, `gap`: offsets that one reread covers at most, and that it may pass
    over between two wanted ones. `under_way`: bytes of payloads that are being read again.
    """

    records: int = 1_000
    size: int = 8 * 1024 * 1024
    reach: int = 16
    run: int = 256
    gap: int = 16
    under_way: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        if min(self.records, self.size, self.reach, self.run, self.gap, self.under_way) < 1:
            raise ValueError("the bounds of what is kept in memory must be positive")


def may_stay(own: Amount, free: Amount, bounds: SpillBounds, *, is_next: bool) -> bool:
    """Whether one more request of a tenant stays in memory whole. `own`: what it has there; `free`: what its partition's
    window would still take. Who has less than is free always may: then many greedy tenants leave as much free as each has
    (Choudhury and Hahne, dynamic queue length thresholds, 1998). `is_next`: it goes before all that its tenant has there, and
    would have to be read again at once.
    """
    if is_next and own.records < bounds.reach:
        return True
    records = bounds.records + (bounds.reach if is_next else 0)
    return own.records < min(records, free.records) and own.size < min(bounds.size, free.size)


def may_be_read_again(own: Amount, free: Amount, bounds: SpillBounds, *, next_is_here: bool) -> Amount:
    """How much of what a tenant has spilled is to be read again now; nothing while it has half of what it may have.

    `next_is_here`: the request that is next of it is whole; else `reach` of them are wanted, and one in a full window.
    """
    most = min(bounds.records, free.records), min(bounds.size, free.size)
    if next_is_here and (2 * own.records >= most[0] or 2 * own.size >= most[1]):
        return Amount(0, 0)
    records = min(bounds.records - own.records, (free.records - own.records) // 2)
    size = min(bounds.size - own.size, (free.size - own.size) // 2)
    least = 0 if next_is_here else max(1, min(bounds.reach, free.records))
    return Amount(max(least, records), max(0 if next_is_here else 1, size))


def within(sizes: Iterable[int], room: Amount) -> int:
    """How many of these, in their order, are read: as many as there is room for. The first is, however large it is."""
    count = total = 0
    for size in sizes:
        total += size
        if count >= room.records or (count and total > room.size):
            break
        count += 1
    return count


def runs_of(offsets: Iterable[int], bounds: SpillBounds) -> list[range]:
    """The offsets of one partition as runs of its log: one read passes over small gaps, which costs less than another."""
    runs: list[range] = []
    for offset in sorted(offsets):
        last = runs[-1] if runs else range(0)
        if runs and offset - last.stop <= bounds.gap and offset - last.start < bounds.run:
            runs[-1] = range(last.start, offset + 1)
        else:
            runs.append(range(offset, offset + 1))
    return runs
