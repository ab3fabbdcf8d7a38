"""Which free slots another tier may have, and when the owner of a share takes its own back. Called by core.headroom.

A tier with headroom owns a percentage of the pool's slots. What comes to whole slots is never lent: the next request of that
tier finds one. What is left of a slot is lent like any other, and taken back from a preemptible tier when its owner has
waited for LONGEST: so a pool of three slots keeps none idle, and still serves an urgent request while long ones hold all.
Invariant: a tier that holds its share or more, or has nothing waiting, takes nothing back.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from headrace.contracts.durations import ms

LONGEST = timedelta(milliseconds=250)
"""How long a tier waits for a slot of its own before it takes one back."""


class Share(NamedTuple):
    """A tier with headroom: its percentage, the attempts it holds, since when (ms since boot) it waits, if it does."""

    percent: int
    held: int
    waiting_since_ms: int | None = None

    def pressed(self, boot_ms: int) -> bool:
        """Whether it has waited too long."""
        return self.waiting_since_ms is not None and boot_ms - self.waiting_since_ms >= ms(LONGEST)

    def owned(self, slots: int, boot_ms: int) -> int:
        """How many of the pool's slots are its own now: whole ones; the broken one too once it has waited too long."""
        whole, rest = divmod(slots * self.percent, 100)
        return whole + (rest > 0 and self.pressed(boot_ms))

    def to_take_back(self, slots: int, waiting: int, boot_ms: int) -> int:
        """How many attempts of others it may have stopped, those under way included."""
        return max(0, min(waiting, self.owned(slots, boot_ms) - self.held)) if self.pressed(boot_ms) else 0


def closed_to(
    tiers: Iterable[str], shares: Mapping[str, Share], *, free: int, slots: int, boot_ms: int
) -> set[str]:
    """The tiers that may have none of the `free` slots: those are owned by others, and not held by them."""
    owed = {name: max(0, share.owned(slots, boot_ms) - share.held) for name, share in shares.items()}
    everybody = sum(owed.values())
    return {tier for tier in tiers if free <= everybody - owed.get(tier, 0)}
