"""Runs of the queue alone that try its bounds: random ones, and schedules that a search has made as unfair as it could.

Used by tests/unit/scheduler/test_fair_bounds.py and tests/benchmarks/fairness.py. Invariant: a seed is a run.
"""

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import NamedTuple

from headrace.contracts.policy import DEFAULT_TIERS
from headrace.scheduler.decisions.pick_next import tier_shares
from tests.support.scheduler.fair_bounds import BoundsWatch
from tests.support.scheduler.keys_alone import KeysAlone
from tests.support.scheduler.queue_alone import UNIT, Attempt, QueueAlone

_TURNS = 30


class RandomRun:
    """Tenants, or keys of one tenant, come and go; attempts end in any order, many at once, and cost what they like.

    `paced`: tenants are over a ceiling now and then.
    """

    def __init__(self, seed: int, *, tiers: bool = False, keys: bool = False, paced: bool = False) -> None:
        self.dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
        names = "abcd"[: self.dice.randint(2, 4)]
        weights = {name: self.dice.randint(1, 5) for name in names}
        shares = tier_shares(DEFAULT_TIERS) if tiers else None
        slots = self.dice.randint(1, 6)
        self.run = KeysAlone(slots, names) if keys else QueueAlone(slots, weights, shares)
        self.watch = BoundsWatch(self.run)
        self.tiers = list(DEFAULT_TIERS) if tiers else ["t"]
        self.rest = {whose: self.dice.random() for tier in self.tiers for whose in ((tier, n) for n in names)}
        """How often each tenant sends nothing."""
        self.over = self.dice.choice([0, 1, 10])
        """How many times its charge an attempt may cost more."""
        self.idle: list[str] = []
        self.paces = names if paced else ""

    def go(self) -> list[str]:
        """What was wrong."""
        for _ in range(_TURNS):
            self._arrive()
            self._pace()
            self._fill()
            for attempt in self.dice.sample(self.run.running, self.dice.randint(0, len(self.run.running))):
                self._end(attempt)
            self.watch.look()
            if self.dice.random() < 0.2:
                self.run.checkpoint()
        return [*self.watch.wrong(), *self.idle[:1]]

    def _arrive(self) -> None:
        for (tier, tenant), rest in self.rest.items():
            if self.dice.random() >= rest:
                for _ in range(self.dice.randint(1, 4)):
                    made = self.run.put(tenant, self.dice.randint(1, 10) * UNIT, tier)
                    if self.dice.random() < 0.1:
                        self.run.give_up(made)

    def _pace(self) -> None:
        for name in self.paces:
            if self.dice.random() < 0.4:
                held = self.run.queue.frozen
                (held.go_on if name in held.paced else held.pace)(name)
        self.watch.look()

    def _fill(self) -> None:
        while self.run.dispatch() is not None:
            self.watch.look()
        if len(self.run.running) < self.run.slots and any(map(self.run.queue.frozen.free_depth, self.tiers)):
            self.idle.append("a slot is idle although a request waits")

    def _end(self, attempt: Attempt) -> None:
        if self.dice.random() < 0.3:
            self.run.report(attempt, attempt.charge * self.dice.randint(1, 1 + self.over))
        spent = attempt.charge * self.dice.choice([0, 1, 1 + self.over])
        self.run.end(attempt, spent + self.dice.randint(0, 3))


class Turn(NamedTuple):
    """How many of f's and g's attempts end at once, and how: 0 as charged, 1 ten times dearer than that, 2 for nothing."""

    f_ends: int
    f_how: int
    g_ends: int
    g_how: int


Schedule = tuple[Turn, ...]


def schedule_of(text: str) -> Schedule:
    """From four digits for each turn, as `text_of` writes them."""
    return tuple(Turn(*map(int, turn)) for turn in text.split())


def text_of(schedule: Schedule) -> str:
    """Four digits for each turn."""
    return " ".join("".join(map(str, turn)) for turn in schedule)


class Found(NamedTuple):
    """What came of a schedule, as shares of the bounds that the run itself shows."""

    lag: Fraction
    gap: Fraction


def play(schedule: Schedule, slots: int = 4, *, keys: bool = False) -> Found:
    """Two tenants, or two keys of one, who always have more waiting, all requests alike. A schedule in which no charge is
    wrong counts for nothing: without errors the bound of counters is one charge, which is reached at once.
    """
    run = KeysAlone(slots, "fg") if keys else QueueAlone(slots, {"f": 1, "g": 1})
    watch = BoundsWatch(run)
    for turn in schedule:
        for name in "fg":
            while run.waiting(name) <= slots:
                run.put(name, UNIT)
        while run.dispatch() is not None:
            watch.look()
        for name, ends, how in (("f", turn.f_ends, turn.f_how), ("g", turn.g_ends, turn.g_how)):
            for attempt in [each for each in run.running if run.book_of(each)[1] == name][:ends]:
                run.end(attempt, (UNIT, 11 * UNIT, 1)[how])
        watch.look()
    if run.most_error < 10 * UNIT:
        return Found(Fraction(0), Fraction(0))
    return Found(watch.worst_lag / watch.lag_bound, watch.worst_gap / watch.gap_bound)


def search(seed: int, tries: int, judge: Callable[[Found], Fraction], turns: int = 16) -> Schedule:
    """Climbs: changes a turn at a time, and keeps what is no fairer than before."""
    dice = Random(seed)  # noqa: S311 - a search that can be had again, not a secret
    best: Schedule = tuple(_any_turn(dice) for _ in range(turns))
    unfair = judge(play(best))
    for _ in range(tries):
        changed = list(best)
        for _ in range(dice.randint(1, 3)):
            changed[dice.randrange(turns)] = _any_turn(dice)
        found = judge(play(tuple(changed)))
        if found >= unfair:
            best, unfair = tuple(changed), found
    return best


def _any_turn(dice: Random) -> Turn:
    return Turn(dice.randint(0, 4), dice.randint(0, 2), dice.randint(0, 4), dice.randint(0, 2))


CASES = range(60)
FAR = Fraction(8, 10)
"""A bound that nothing comes near to tests nothing."""
UNFAIR_LAG = "2000 1211 2000 1222 2000 4000 1100 0020 2100 0031 1111 4100"
UNFAIR_GAP = "1000 2000 1000 0041 2100 2000 1100 2000 4100"


def dice_of(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - a run that can be had again, not a secret
