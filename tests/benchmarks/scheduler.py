"""The scheduler against its aims, in virtual time: goodput under overload, floods, tiers side by side, caches, learnt limits.

    make bench-scheduler     or: python -m tests.benchmarks.scheduler [SEEDS] [NAME ...] [--jobs N]

Lengths and arrivals are of tests/data/traces/azure2023_conv.csv, slacks of 5 to 30 s; one backend of 32 slots. Each figure is
a mean over the seeds (20), printed beside its aim; exit status 1 when one is missed. N processes share the seeds (all cores);
neither that nor the machine's speed is in any figure.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from statistics import fmean

from headrace.contracts.policy import Policy, policy_from
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.comparing import HEADRACE, Course, compare, contenders
from headrace.scheduler.simulate.figures import Figures
from headrace.scheduler.simulate.over_seeds import mean_of
from headrace.scheduler.simulate.scenario import Scenario
from headrace.scheduler.simulate.trace import Asked, read_trace
from tests.benchmarks.caches import NAMES, WITHIN_REACH, found_on
from tests.benchmarks.held import WORKLOADS, Held, held_of
from tests.benchmarks.saying import say
from tests.benchmarks.slots import LOADS, slots_of
from tests.support.entry import one_of, parser_of

TRACE = Path(__file__).resolve().parents[1] / "data/traces/azure2023_conv.csv"
SLACK_MS = (5_000, 30_000)
MODEL = BackendModel(slots=32)
AT_ONCE_MS = 250
"""A wait that nobody minds: whoever waits alone for less is taken to wait so long."""
TENANTS, LARGEST = 20, "tenant-00"
LONGER = 64
"""So many times as long as in the trace the answers of long batch work are: 6,000 tokens in the median."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of one seed. The mean over the seeds is to be from `least` to `most`."""

    name: str
    value: float
    least: float = -inf
    most: float = inf

    @property
    def aim(self) -> str:
        """The two, for a person."""
        match self.least, self.most:
            case (least, most) if least == -inf and most == inf:
                return "no aim"
            case (least, most) if most == inf:
                return f"aim >= {least:g}"
            case (least, most) if least == -inf:
                return f"aim <= {most:g}"
        return f"aim {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """One figure of all seeds."""

    figures: Sequence[Figure]

    @property
    def held(self) -> bool:
        """Whether it came out as it should."""
        return self.figures[0].least <= fmean(self._values) <= self.figures[0].most

    @property
    def _values(self) -> list[float]:
        return [figure.value for figure in self.figures]

    def __str__(self) -> str:
        values, first = self._values, self.figures[0]
        mean = mean_of(values)
        spread = f"±{mean.within:.3f}, {min(values):.3f} to {max(values):.3f}"
        return f"{'held  ' if self.held else 'MISSED'}  {first.name}: {mean.mean:.3f} ({spread}); {first.aim}"


def policy() -> Policy:
    """Twenty tenants alike, and the tiers as they are by default."""
    named: dict[str, dict[str, object]] = {f"tenant-{number:02}": {} for number in range(TENANTS)}
    return policy_from({"pools": {"main": {"models": {"m": "m"}}}, "tenants": named})


@cache
def trace() -> Sequence[Asked]:
    """All of it."""
    with TRACE.open(encoding="utf-8", newline="") as lines:
        return read_trace(lines, TRACE.name)


def runs_of(scenario: Scenario, names: Sequence[str], seed: int) -> list[Figures]:
    """One run of each of these contenders on this scenario."""
    course = Course(trace(), scenario, policy(), "main", [MODEL])
    known = contenders(course.policy, course.pool)
    return [runs[0] for runs in compare(course, {name: known[name] for name in names}, [seed]).values()]


def overload(seed: int) -> list[Figure]:
    """Twice as much is asked for as can be done; all have deadlines."""
    scenario = Scenario(load=2.0, requests=3_000, slack_ms={"standard": SLACK_MS})
    ours, theirs = runs_of(scenario, (HEADRACE, "fifo-drop"), seed)
    return [
        Figure("goodput of capacity at twice the load", ours.goodput, 0.9),
        Figure("the same, over FIFO that drops the expired", ours.goodput / theirs.goodput, 1.5),
        gap_of(ours),
    ]


def flood(seed: int) -> list[Figure]:
    """One tenant sends 80 % of that; then the same work as half of the requests, with answers four times as long.

    Where all requests are alike, a turn of each tenant is fair already, and nobody but the first is ever late. It isn't where
    those of the first are longer: each of its turns then holds a slot for four times as long as another's, so turns give it
    more of the pool than tokens would, and the others wait. Both contenders get the same requests, with the same slacks.
    """
    alike = Scenario(load=2.0, requests=3_000, largest=0.8, slack_ms={"standard": SLACK_MS})
    longer = Scenario(
        load=2.0, requests=3_000, largest=0.5, longer_of_largest=4, slack_ms={"standard": SLACK_MS}
    )
    return [
        *_beside_a_flood("a flood", runs_of(alike, (HEADRACE, "round-robin"), seed), 0),
        *_beside_a_flood("a flood of long answers", runs_of(longer, (HEADRACE, "round-robin"), seed), 0.03),
    ]


def _beside_a_flood(what: str, runs: Sequence[Figures], better_by: float) -> list[Figure]:
    ours, theirs = (others_on_time(run) for run in runs)
    return [
        Figure(f"the other 19 on time beside {what}", ours, 0.97),
        Figure(f"the same, less round robin with expiry, {what}", ours - theirs, better_by),
        gap_of(runs[0]),
    ]


def side_by_side(seed: int) -> list[Figure]:
    """Interactive requests for 30 % of the slots, alone; then beside batch work for more than the rest, as long or longer.

    How much the long ones ask for is left to chance, 0.9 to 1.9 times the slots; the interactive ones ask for 30 % always.
    """
    lone = Scenario(load=0.3, requests=900, tiers={"interactive": 1.0})
    alike = Scenario(load=2.0, requests=6_000, tiers={"interactive": 0.15, "batch": 0.85})
    longer = Scenario(
        load=0.3,
        load_of="interactive",
        requests=980,
        tiers={"interactive": 0.919, "batch": 0.081},
        longer={"batch": LONGER},
    )
    alone, *beside = (runs_of(scenario, (HEADRACE,), seed)[0] for scenario in (lone, alike, longer))
    return [*_beside("batch", alone, beside[0]), *_beside("long batch", alone, beside[1])]


def _beside(what: str, alone: Figures, beside: Figures) -> list[Figure]:
    waits = wait_ms(beside) / max(AT_ONCE_MS, wait_ms(alone))
    rest = 1 - (beside.idle + beside.lost) / (1 - 0.3)
    return [
        Figure(f"interactive p95 wait beside {what}, over alone", waits, most=1.2),
        Figure(f"of the rest of the slots, {what} takes and keeps", rest, 0.95),
    ]


def gap_of(run: Figures) -> Figure:
    """The fairness gap over its bound."""
    return Figure("fairness gap over its bound", run.gap / (run.promised_gap or 1), most=1)


def others_on_time(run: Figures) -> float:
    """Of the requests of all but the largest tenant, the share on time."""
    others = [waits for name, waits in run.tenants.items() if name != LARGEST]
    return sum(w.requests * (w.on_time or 0) for w in others) / sum(w.requests for w in others)


def wait_ms(run: Figures) -> int:
    """The p95 of the interactive tier."""
    return run.tiers["interactive"].p95_ms or 0


def held(seed: int) -> list[Figure]:
    """Learnt limits on a simulated engine, beside the best fixed ones; then half of the engine is gone."""
    return [
        figure
        for name in WORKLOADS
        for lag_ms, run in held_of(name, seed).items()
        for figure in _held_figures(f"{name}, gauges {lag_ms // 1000} s late", run)
    ]


def _held_figures(what: str, run: Held) -> list[Figure]:
    return [
        Figure(f"{what}: tokens/s over the best fixed", run.rate, 0.95),
        Figure(f"{what}: queue in the engine, p95", run.queue, most=4),
        Figure(f"{what}: limit over what there is", run.share, 0.85, 1.15),
        Figure(f"{what}, halved: tokens/s over the best", run.rate_of_half, 0.95),
        Figure(f"{what}, halved: queue, p95", run.queue_of_half, most=4),
        Figure(f"{what}, 60 s after: limit", run.share_of_half, 0.85, 1.15),
    ]


def caches(seed: int) -> list[Figure]:
    """Eight backends with caches, on Mooncake's traces; round robin over them beside it."""
    figures = []
    for name in NAMES:
        found = found_on(name, seed + 1)  # 0 is what its rules were tuned on
        figures += [
            Figure(f"{name}: prefix hits of a perfect cache's", found.hits, 0.9),
            Figure(f"{name}: tokens/s over round robin's", found.rate, 1.5 if name in WITHIN_REACH else -inf),
            Figure(f"{name}: the same, of what a perfect cache brings", found.rate / found.most, 0.9),
            gap_of(found.ours),
        ]
    return figures


def slots(seed: int) -> list[Figure]:
    """Slots of an engine with more to do than it can, beside what a trip through Kafka takes."""
    figures = []
    for load in LOADS:
        busy, ends = slots_of(load, seed)
        name = f"{load.slots} slots, {load.ends:,} ends a second, trip {load.trip_ms} ms"
        figures += [Figure(f"{name}: busy", busy, load.busy), Figure(f"{name}: ends a second", ends)]
    return figures


PARTS: dict[str, Callable[[int], list[Figure]]] = {
    "overload": overload,
    "flood": flood,
    "tiers": side_by_side,
    "caches": caches,
    "held": held,
    "slots": slots,
}


def _one(task: tuple[str, int]) -> list[Figure]:
    name, seed = task
    return PARTS[name](seed)


def over_seeds(names: Sequence[str], seeds: int, jobs: int) -> Iterator[tuple[str, list[OverSeeds]]]:
    """The figures of each part, in order; so many processes share the work."""
    with ProcessPoolExecutor(jobs) as pool:
        runs = pool.map(_one, [(name, seed) for name in names for seed in range(seeds)])
        for name in names:
            of_seeds = [next(runs) for _ in range(seeds)]
            yield name, [OverSeeds(figures) for figures in zip(*of_seeds, strict=True)]


def main() -> int:
    """Prints all figures; 1 when one is missed."""
    parser = parser_of(__spec__, __doc__)
    parser.add_argument("seeds", type=int, nargs="?", default=20, help="default: %(default)s")
    parser.add_argument(
        "names", nargs="*", type=one_of(PARTS), metavar="NAME", help=f"of {', '.join(PARTS)}; default: all"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)"
    )
    given = parser.parse_args()
    missed = 0
    for name, figures in over_seeds(given.names or list(PARTS), given.seeds, given.jobs):
        say(f"{name}: {(PARTS[name].__doc__ or '').splitlines()[0]}")
        for figure in figures:
            say(f"  {figure}")
            missed += not figure.held
    return min(1, missed)


if __name__ == "__main__":
    sys.exit(main())
