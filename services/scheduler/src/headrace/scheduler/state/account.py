"""One counter: what was settled, and what is charged for attempts in flight. Used by state.accounts and state.flows.

Invariant: a counter is settled + in flight, all integers, each charge rounded upwards and taken back exactly.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from headrace.scheduler.decisions.pick_next import step_of


@dataclass(slots=True)
class Account:
    """One tier's, tenant's or flow's counter, in micro service units over its share."""

    share: Fraction
    settled: int = 0
    charged: int = 0
    in_flight: int = 0
    _ratio: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        """A fraction is asked once for what each charge is divided by."""
        self._ratio = self.share.as_integer_ratio()

    @property
    def value(self) -> int:
        """The counter by which it is picked: the least is served first."""
        return self.settled + self.charged

    def step_of(self, cost: int) -> int:
        """How far this moves it."""
        return step_of(cost, self._ratio)

    def charge(self, cost: int) -> None:
        """An attempt of this cost has been dispatched, or was found in a worker's hands."""
        self.charged += step_of(cost, self._ratio)
        self.in_flight += 1

    def recharge(self, before: int, after: int) -> None:
        """An attempt has spent more than it was charged."""
        self.charged += step_of(after, self._ratio) - step_of(before, self._ratio)

    def refund(self, cost: int) -> None:
        """An attempt ended: its charge is taken back, exactly as it was made."""
        self.charged -= step_of(cost, self._ratio)
        self.in_flight -= 1

    def settle(self, spent: int) -> None:
        """What an attempt really spent."""
        self.settled += step_of(spent, self._ratio)

    def reshare(self, share: Fraction, charges: Iterable[int]) -> None:
        """It has another share from now on. `charges`: of its attempts in flight, which are taken back at that share too."""
        if share != self.share:
            self.share, self._ratio = share, share.as_integer_ratio()
            self.charged = sum(step_of(cost, self._ratio) for cost in charges)

    def lift_to(self, floor: int) -> None:
        """Credit doesn't survive idling: raise the counter to at least this."""
        self.settled += max(0, floor - self.value)
