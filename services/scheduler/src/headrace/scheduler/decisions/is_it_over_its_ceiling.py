"""Is a tenant, or a pool, over a ceiling, and until when? Asked by state.ceilings for each that has one.

The generic cell rate algorithm (ITU-T I.371), with a debt that is paid back at the ceiling's rate: what is charged moves
`due`, the instant when all is paid back; more may be spent while there is room for one more below what may be owed at once.

Invariant: in any time t no more is charged than amount * t / per + at_once, and one charge less one besides, since nobody
asks how large the last is. All are integers: instants are microseconds since boot, rounded to the side that paces.
"""

from typing import NamedTuple

from headrace.contracts.durations import us
from headrace.contracts.policy import CeilingPolicy, Spent


class Ceiling(NamedTuple):
    """So many of what is counted in so many microseconds, and so many at once."""

    spent: Spent
    amount: int
    per_us: int
    at_once: int

    @property
    def key(self) -> str:
        """By what a checkpoint knows it: another amount is the same ceiling, raised or lowered."""
        return f"{self.spent}/{self.per_us}"


def ceiling_of(policy: CeilingPolicy) -> Ceiling:
    """As the operator wrote it."""
    return Ceiling(policy.spent, policy.amount, us(policy.per), policy.most_at_once)


def takes_us(amount: int, ceiling: Ceiling) -> int:
    """How long so much takes to be paid back."""
    return -(-amount * ceiling.per_us // ceiling.amount)


def charged(due_us: int, now_us: int, amount: int, ceiling: Ceiling) -> int:
    """`due` after a charge. Who owed nothing begins now: time without a debt isn't saved up."""
    return max(due_us, now_us) + takes_us(amount, ceiling)


def settled(due_us: int, now_us: int, before: int, after: int, ceiling: Ceiling) -> int:
    """`due` once it is known that a charge should have been another. What it was short of counts as spent now: its own
    instant may be so long ago that it would be forgotten at once.
    """
    change_us = takes_us(after, ceiling) - takes_us(before, ceiling)
    return max(due_us, now_us) + change_us if change_us > 0 else due_us + change_us


def opens_us(due_us: int, ceiling: Ceiling) -> int:
    """From when on more may be spent. It has passed: it isn't over its ceiling."""
    return due_us - (ceiling.at_once - 1) * ceiling.per_us // ceiling.amount
