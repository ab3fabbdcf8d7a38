"""The scheduler against its aims, in virtual time: goodput under overload, a flood, tiers side by side, learnt limits.

    make bench-scheduler     or: python -m tests.benchmarks.scheduler [SEEDS] [NAME ...]

Lengths and arrivals are of tests/data/traces/azure2023_conv.csv, slacks of 5 to 30 s; one backend of 32 slots. Each figure is
a mean over the seeds (20), printed beside its aim; exit status 1 when one is missed. The machine's speed is in none of them.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import le
from pathlib import Path
from statistics import fmean

from headrace.contracts.policy import Policy, policy_from
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.comparing import HEADRACE, Course, compare, contenders
from headrace.scheduler.simulate.figures import Figures
from headrace.scheduler.simulate.over_seeds import mean_of
from headrace.scheduler.simulate.scenario import Scenario
from headrace.scheduler.simulate.trace import read_trace
from tests.benchmarks.caches import NAMES, found_on
from tests.benchmarks.held import LAGS_MS, WORKLOADS, Held, held_of
from tests.benchmarks.saying import say

TRACE = Path(__file__).resolve().parents[1] / "data/traces/azure2023_conv.csv"
SLACK_MS = (5_000, 30_000)
MODEL = BackendModel(slots=32)
AT_ONCE_MS = 250
"""A wait that nobody minds: whoever waits alone for less is taken to wait so long."""
TENANTS, LARGEST = 20, "tenant-00"
LONGER = 64
"""So many times as long as in the trace the answers of long batch work are: 6,000 tokens in the median."""
FEW, FEW_CACHES = 1, 3
"""Seeds of the parts that take minutes, and half a minute, for each."""
Runs = Mapping[str, Sequence[Figures]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of each seed. `holds` says whether the mean is as it should be."""

    name: str
    aim: str
    values: Sequence[float]
    holds: Callable[[float], bool]

    @property
    def held(self) -> bool:
        """Whether it is."""
        return self.holds(fmean(self.values))

    def __str__(self) -> str:
        mean = mean_of(self.values)
        spread = f"±{mean.within:.3f}, {min(self.values):.3f} to {max(self.values):.3f}"
        return (
            f"{'held  ' if self.held else 'MISSED'}  {self.name}: {mean.mean:.3f} ({spread}); aim {self.aim}"
        )


def policy() -> Policy:
    """Twenty tenants alike, and the tiers as they are by default."""
    named: dict[str, dict[str, object]] = {f"tenant-{number:02}": {} for number in range(TENANTS)}
    return policy_from({"pools": {"main": {"models": {"m": "m"}}}, "tenants": named})


def runs_of(scenario: Scenario, names: Sequence[str], seeds: range) -> dict[str, list[Figures]]:
    """Each of these contenders on this scenario."""
    with TRACE.open(encoding="utf-8", newline="") as lines:
        trace = read_trace(lines, TRACE.name)
    course = Course(trace, scenario, policy(), "main", [MODEL])
    known = contenders(course.policy, course.pool)
    return compare(course, {name: known[name] for name in names}, seeds)


def overload(seeds: range) -> list[Figure]:
    """Twice as much is asked for as can be done; all have deadlines."""
    scenario = Scenario(load=2.0, requests=3_000, slack_ms={"standard": SLACK_MS})
    found = runs_of(scenario, (HEADRACE, "fifo-drop"), seeds)
    ours, theirs = ([run.goodput for run in found[name]] for name in (HEADRACE, "fifo-drop"))
    ratio = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return [
        Figure("goodput of capacity at twice the load", ">= 0.90", ours, lambda mean: mean >= 0.90),
        Figure("the same, over FIFO that drops the expired", ">= 1.5", ratio, lambda mean: mean >= 1.5),
        gap_of(found),
    ]


def flood(seeds: range) -> list[Figure]:
    """One tenant sends 80 % of that."""
    scenario = Scenario(load=2.0, requests=3_000, largest=0.8, slack_ms={"standard": SLACK_MS})
    found = runs_of(scenario, (HEADRACE, "round-robin"), seeds)
    ours, theirs = ([others_on_time(run) for run in found[name]] for name in (HEADRACE, "round-robin"))
    better = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    return [
        Figure("the other 19 on time beside a flood", ">= 0.97", ours, lambda mean: mean >= 0.97),
        Figure("the same, less round robin with expiry", ">= 0", better, lambda mean: mean >= 0),
        gap_of(found),
    ]


def side_by_side(seeds: range) -> list[Figure]:
    """Interactive requests for 30 % of the slots, alone; then beside batch work for more than the rest, as long or longer."""
    alone = runs_of(Scenario(load=0.3, requests=900, tiers={"interactive": 1.0}), (HEADRACE,), seeds)[
        HEADRACE
    ]
    alike = Scenario(load=2.0, requests=6_000, tiers={"interactive": 0.15, "batch": 0.85})
    longer = Scenario(
        load=2.0, requests=980, tiers={"interactive": 0.919, "batch": 0.081}, longer={"batch": LONGER}
    )
    return [
        *_beside("batch", alone, runs_of(alike, (HEADRACE,), seeds)[HEADRACE]),
        *_beside("long batch", alone, runs_of(longer, (HEADRACE,), seeds)[HEADRACE]),
    ]


def _beside(what: str, alone: Sequence[Figures], both: Sequence[Figures]) -> list[Figure]:
    pairs = list(zip(alone, both, strict=True))
    waits = [wait_ms(beside) / max(AT_ONCE_MS, wait_ms(lone)) for lone, beside in pairs]
    rest = [1 - (beside.idle + beside.lost) / (1 - 0.3) for _, beside in pairs]
    return [
        Figure(f"interactive p95 wait beside {what}, over alone", "<= 1.2", waits, lambda mean: mean <= 1.2),
        Figure(
            f"of the rest of the slots, {what} takes and keeps", ">= 0.95", rest, lambda mean: mean >= 0.95
        ),
    ]


def gap_of(found: Runs) -> Figure:
    """The fairness gap over its bound."""
    shares = [run.gap / (run.promised_gap or 1) for run in found[HEADRACE]]
    return Figure("fairness gap over its bound", "<= 1", shares, lambda mean: mean <= 1)


def others_on_time(run: Figures) -> float:
    """Of the requests of all but the largest tenant, the share on time."""
    others = [waits for name, waits in run.tenants.items() if name != LARGEST]
    return sum(w.requests * (w.on_time or 0) for w in others) / sum(w.requests for w in others)


def wait_ms(run: Figures) -> int:
    """The p95 of the interactive tier."""
    return run.tiers["interactive"].p95_ms or 0


def held(seeds: range) -> list[Figure]:
    """Learnt limits on a simulated engine, beside the best fixed ones; then half of the engine is gone."""
    found = []
    for name in WORKLOADS:
        runs = [held_of(name, seed) for seed in seeds[:FEW]]
        for lag_ms in LAGS_MS:
            found += _held_figures(f"{name}, gauges {lag_ms // 1000} s late", [run[lag_ms] for run in runs])
    return found


def _held_figures(what: str, runs: Sequence[Held]) -> list[Figure]:
    def near(mean: float) -> bool:
        return 0.85 <= mean <= 1.15

    return [
        Figure(f"{what}: tokens/s over the best fixed", ">= 0.95", [r.rate for r in runs], lambda m: m >= 0.95),
        Figure(f"{what}: queue in the engine, p95", "<= 4", [r.queue for r in runs], lambda m: m <= 4),
        Figure(f"{what}: limit over what there is", "0.85 to 1.15", [r.share for r in runs], near),
        Figure(
            f"{what}, halved: tokens/s over the best", ">= 0.95", [r.rate_of_half for r in runs],
            lambda m: m >= 0.95,
        ),
        Figure(f"{what}, halved: queue, p95", "<= 4", [r.queue_of_half for r in runs], lambda m: m <= 4),
        Figure(f"{what}, 60 s after: limit", "0.85 to 1.15", [r.share_of_half for r in runs], near),
    ]  # fmt: skip


def caches(seeds: range) -> list[Figure]:
    """Eight backends with caches, on Mooncake's traces; round robin over them beside it."""
    figures = []
    for name in NAMES:
        found = found_on(name, [seed + 1 for seed in seeds[:FEW_CACHES]])  # 0 is what its rules were tuned on
        most = fmean(each.most for each in found)
        aim = min(1.5, 0.9 * most)
        gaps = [each.ours.gap / (each.ours.promised_gap or 1) for each in found]
        figures += [
            Figure(f"{name}: prefix hits of a perfect cache's", ">= 0.90", [each.hits for each in found],
                   lambda mean: mean >= 0.90),
            Figure(f"{name}: tokens/s over round robin's",
                   f">= 1.5, or 0.9 of what a perfect cache brings ({most:.2f})", [each.rate for each in found],
                   partial(le, aim)),
            Figure(f"{name}: fairness gap over its bound", "<= 1", gaps, lambda mean: mean <= 1),
        ]  # fmt: skip
    return figures


PARTS = {"caches": caches, "overload": overload, "flood": flood, "tiers": side_by_side, "held": held}


def main(arguments: Sequence[str]) -> int:
    """Prints all figures; 1 when one is missed."""
    seeds = range(int(arguments[0]) if arguments else 20)
    missed = 0
    for name in arguments[1:] or PARTS:
        say(f"{name}: {PARTS[name].__doc__}")
        for figure in PARTS[name](seeds):
            say(f"  {figure}")
            missed += not figure.held
    return min(1, missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
