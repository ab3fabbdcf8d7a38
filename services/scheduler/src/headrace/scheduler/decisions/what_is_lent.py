"""Which free slots another tier may have, and how many a tier takes back after too long a wait. Called by core.headroom.

A tier with headroom owns a percentage of the pool's slots, as far as it has wanted them of late. What comes to whole slots is
never lent: the next request of that tier finds one. What is left of a slot is lent like any other, and taken back from a
preemptible tier when its owner has waited for LONGEST: so a pool of three slots keeps none idle, and still serves an urgent
request while long ones hold all. Beyond that a tier that has waited so long takes back what its part of the work comes to in
slots, from those who hold more than theirs. So that it can, what was stopped too often to be stopped again gets no slot that
such a tier has wanted of late. Invariant: a tier that holds all that, or has nothing waiting, takes nothing back.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from headrace.contracts.durations import ms

LONGEST = timedelta(milliseconds=250)
"""How long a tier waits for a slot of its own before it takes one back."""


@dataclass(frozen=True, slots=True)
class Share:
    """A tier with headroom. `percent` of the slots are its own; `held`: its attempts; `waiting`: its requests; `wanted`: the
    most of both at one time of late; `part`: of the pool's work, what it is sure of while it waits; `coming`: attempts of
    others that are being stopped for it; `waiting_since_ms`: since when (ms since boot) it waits, if it does.
    """

    percent: int
    held: int
    wanted: int
    waiting: int = 0
    part: Fraction = Fraction(0)
    coming: int = 0
    waiting_since_ms: int | None = None

    def pressed(self, boot_ms: int) -> bool:
        """Whether it has waited too long."""
        return self.waiting_since_ms is not None and boot_ms - self.waiting_since_ms >= ms(LONGEST)

    def owned(self, slots: int, boot_ms: int) -> int:
        """How many of the pool's slots are its own now: whole ones; the broken one too once it has waited too long. None
        that it hasn't wanted of late.
        """
        whole, rest = divmod(slots * self.percent, 100)
        return min(whole + (rest > 0 and self.pressed(boot_ms)), self.wanted)

    def kept(self, slots: int, boot_ms: int) -> int:
        """How many free slots are kept for it: its own that it doesn't hold, and those that were taken back for it."""
        return max(0, self.owned(slots, boot_ms) - self.held, self.coming)

    def to_take_back(self, slots: int, boot_ms: int) -> int:
        """How many attempts of others it may have stopped for slots of its own, those under way included."""
        return (
            max(0, min(self.waiting, self.owned(slots, boot_ms) - self.held)) if self.pressed(boot_ms) else 0
        )

    def to_take_besides(self, slots: int, boot_ms: int) -> int:
        """The same for its part of the work, the former included; only of those who hold more than is safe."""
        return max(0, min(self.waiting, self.whole_part(slots) - self.held)) if self.pressed(boot_ms) else 0

    def whole_part(self, slots: int) -> int:
        """Its part of the work in whole slots."""
        return slots * self.part.numerator // self.part.denominator


def safe(slots: int, part: Fraction) -> int:
    """So many of a tier's attempts are stopped for nobody's part: its own part of the slots, the broken one too."""
    return -(-slots * part.numerator // part.denominator)


def may_stay(shares: Iterable[Share], *, slots: int) -> int:
    """How many slots may hold attempts of preemptible tiers that can't be stopped again: all but those that a tier with
    headroom has wanted of late, up to its part. Without that they come to hold all slots, one after the other.
    """
    return slots - sum(min(share.wanted, share.whole_part(slots)) for share in shares)


def closed_to(
    tiers: Iterable[str], shares: Mapping[str, Share], *, free: int, slots: int, boot_ms: int
) -> set[str]:
    """The tiers that may have none of the `free` slots: those are kept for others."""
    kept = {name: share.kept(slots, boot_ms) for name, share in shares.items()}
    everybody = sum(kept.values())
    return {tier for tier in tiers if free <= everybody - kept.get(tier, 0)}
