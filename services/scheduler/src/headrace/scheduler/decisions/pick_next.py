"""Whose request runs next: tiers by start-time fair queuing, tenants by token counters, inside a tenant by deadline.

Called by state.fair_queue, state.accounts and core.intake. Invariant: all arithmetic is exact on integers and
fractions; shares are fixed at configuration and never re-normalised over who is backlogged at the moment.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from fractions import Fraction

from headrace.contracts.durations import ms
from headrace.contracts.policy import TierPolicy
from headrace.contracts.requests import RequestRecord

OrderKey = int
"""Priority (greater first, so negated), deadline, arrival, place in the log: the lesser goes first.

One integer, since heaps compare such several times faster than tuples.
"""
_BITS = 64
_MOST = (1 << _BITS) - 1
_BELOW_PRIORITY = 1 << 3 * _BITS


def tier_shares(tiers: Mapping[str, TierPolicy]) -> dict[str, Fraction]:
    """phi_j = r_j + (1 - sum r) * f_j / sum f: each tier's constant share, which contains its floor. They sum to 1."""
    floors = {name: Fraction(tier.floor_percent, 100) for name, tier in tiers.items()}
    rest, weights = 1 - sum(floors.values(), Fraction(0)), sum(tier.weight for tier in tiers.values())
    return {name: floors[name] + rest * Fraction(tier.weight, weights) for name, tier in tiers.items()}


def step_of(charge: int, share: tuple[int, int]) -> int:
    """How far a charge (micro service units) moves a counter: charge / share, rounded up, so that each charge moves it.

    The share is a tier's phi, or a tenant's weight, as numerator and denominator. The same charge always moves by the same
    step: taking it back is exact.
    """
    numerator, denominator = share
    return -(-charge * denominator // numerator)


def pick_tier(start_tags: Mapping[str, int]) -> str | None:
    """The backlogged tier with the least start tag; of equals the first by name. None when there is none."""
    least = min(zip(start_tags.values(), start_tags, strict=True), default=None)
    return None if least is None else least[1]


def lifted(counter: int, backlogged: Iterable[int], largest_tag: int) -> int:
    """A tenant's counter on becoming backlogged: credit doesn't survive idling, debt does.

    `backlogged` are the counters of the tier's other backlogged tenants, `largest_tag` the largest dispatched so far.
    """
    return max(counter, min(backlogged, default=largest_tag))


def most_in_flight(weight: int, backlogged_weight: int, slots: int) -> int:
    """K_i = max(1, ceil(2*K*w_i / sum w)): the attempts that a tenant may have at a time while others of its tier wait.

    Twice its part of the pool's K slots: who sends what takes long leaves slots to the others, whatever its tokens cost.
    `backlogged_weight` is the weight of all tenants of the tier with waiting requests; alone it may have them all.
    """
    return max(1, -(-2 * slots * weight // backlogged_weight))


def may_forget(counter: int, largest_tag: int, in_flight: int) -> bool:
    """Whether an idle tenant's counter may be dropped: the lift would raise it to at least this anyway."""
    return in_flight == 0 and counter <= largest_tag


def order_of(record: RequestRecord, offset: int, tier_default: timedelta) -> OrderKey:
    """Where a request stands inside its tenant. No deadline counts as arrival plus the tier's queue time-out."""
    default_ms = record.accepted_ms + ms(tier_default)
    deadline = record.finish_by_ms or record.start_by_ms or default_ms
    return order_key(record.priority, deadline, record.accepted_ms, offset)


def order_key(priority: int, deadline_ms: int, accepted_ms: int, offset: int) -> OrderKey:
    """Where such a request stands. But for the priority all are in 0..2**64 - 1, as records are bound to be."""
    return (((-priority << _BITS) + deadline_ms << _BITS) + accepted_ms << _BITS) + offset


def priority_of(order: OrderKey) -> int:
    """The priority that it stands by."""
    return -(order // _BELOW_PRIORITY)


def times_of(order: OrderKey) -> tuple[int, int, int]:
    """The deadline (Unix ms), the arrival (Unix ms) and the place in the log that it stands by."""
    return order >> 2 * _BITS & _MOST, order >> _BITS & _MOST, order & _MOST


def with_priority(order: OrderKey, priority: int) -> OrderKey:
    """The same but for its priority."""
    return -priority * _BELOW_PRIORITY + order % _BELOW_PRIORITY
