"""The bounds of the order of release, tried by many random runs and by searches for the least fair schedule.

    make fairness     or: python -m tests.benchmarks.fairness [CASES]

A third of the CASES (10,000) has tiers that come and go, a third one tenant and its fairness keys. Exit status 1 when a bound
was passed, or when no search came within 80 % of it: a bound that nothing comes near says nothing. Each line names the seed,
so that a run can be had again.
"""

import sys
from collections.abc import Callable
from fractions import Fraction

from tests.benchmarks.saying import say
from tests.support.entry import count_of, parser_of
from tests.support.scheduler.fair_runs import Found, RandomRun, play, search, text_of

FAR = Fraction(8, 10)
_TRIES, _SEARCHES = 2_000, 3
JUDGES: dict[str, Callable[[Found], Fraction]] = {
    "counters": lambda found: found.lag,
    "service": lambda found: found.gap,
}


def passed(cases: int) -> int:
    """How many random runs passed a bound."""
    wrong = 0
    for seed in range(cases):
        found = RandomRun(seed, tiers=seed % 3 == 0, keys=seed % 3 == 1).go()
        if found:
            wrong += 1
            say(f"  seed {seed}: {'; '.join(found)}")
    say(f"{cases} random runs, {wrong} beyond a bound")
    return wrong


def searched() -> int:
    """How many searches passed a bound or stayed far from it."""
    wrong = 0
    for name, judge in JUDGES.items():
        best = max(
            (search(seed, _TRIES, judge) for seed in range(_SEARCHES)), key=lambda one: judge(play(one))
        )
        reached = judge(play(best))
        wrong += not FAR <= reached <= 1
        say(f"{name}: the least fair schedule reached {float(reached):.3f} of the bound: {text_of(best)}")
    return wrong


def main(cases: int) -> int:
    """Prints what was found; 1 when it isn't as it should be."""
    return min(1, passed(cases) + searched())


if __name__ == "__main__":
    sys.exit(main(count_of(parser_of(__spec__, __doc__), "cases", 10_000, "random runs")))
