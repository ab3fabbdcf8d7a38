"""What a policy must do to take part in a comparison. Implemented by baselines and by owner; called by the world.

Invariant: a contender sees of a request what a scheduler may know, which is everything but its output tokens.
"""

from collections.abc import Callable, Sequence, Set
from typing import NamedTuple, Protocol

from headrace.scheduler.simulate.backend import Backend
from headrace.scheduler.simulate.jobs import Job


class Start(NamedTuple):
    """Send it to this backend, counted from 0; `said`: to go on behind so many tokens of its answer."""

    job: Job
    backend: int
    said: int = 0


class Drop(NamedTuple):
    """End it; it isn't at a backend."""

    job: Job


class Cancel(NamedTuple):
    """End it; it is at a backend."""

    job: Job


class PutBack(NamedTuple):
    """Stop it; it is at a backend, and will be started again."""

    job: Job


Order = Start | Drop | Cancel | PutBack


class Left(NamedTuple):
    """A request has left its backend, however it did, after so many tokens; the first at `first_ms`, if known."""

    job: Job
    tokens: int
    first_ms: int | None


class Contender(Protocol):
    """A policy under comparison."""

    def turn(self, now_ms: int, arrived: Sequence[Job], left: Sequence[Left]) -> Sequence[Order]:
        """Take in what has happened at this instant, and say what to do."""

    def wake_ms(self) -> int | None:
        """Turn it by then even if nothing happens; None: needn't be."""

    def aside(self) -> Set[str]:
        """Tenants that were over a ceiling at any moment since this was asked last: to them nothing was promised."""
        return frozenset()

    def promised_gap(self) -> int | None:
        """By how much two backlogged tenants of a tier may differ in micro service units over weight, given what it has seen;
        None: it promises nothing. Asked at the end.
        """


MakeContender = Callable[[Sequence[Backend], int], Contender]
"""A contender for these backends, which it may look at as a worker's reports would tell of them; and the seed."""
