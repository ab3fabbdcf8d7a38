"""Runs contenders on the same requests, seed by seed. Called by `headrace simulate` and the benchmarks.

Invariant: within a seed every contender gets the same requests and backends of its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from headrace.contracts.policy import Policy
from headrace.scheduler.simulate.backend import Backend, BackendModel
from headrace.scheduler.simulate.baselines import baselines
from headrace.scheduler.simulate.contender import MakeContender
from headrace.scheduler.simulate.figures import Figures, figures_of
from headrace.scheduler.simulate.gap import GapWatch
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.owner import Owner
from headrace.scheduler.simulate.scenario import Scenario, draw
from headrace.scheduler.simulate.series import Series
from headrace.scheduler.simulate.trace import Asked
from headrace.scheduler.simulate.world import Window, World

HEADRACE = "headrace"


@dataclass(frozen=True, slots=True)
class Course:
    """What all contenders run on. `warm_ms`: left out of the figures at the beginning; `drain_ms`: how long a run goes on
    after the last arrival.
    """

    trace: Sequence[Asked]
    scenario: Scenario
    policy: Policy
    pool: str
    models: Sequence[BackendModel]
    warm_ms: int = 30_000
    drain_ms: int = 120_000


class Entrant(NamedTuple):
    """A contender and the policy file that it goes by."""

    make: MakeContender
    policy: Policy


def headrace(policy: Policy, pool: str) -> Entrant:
    """The product under this policy."""
    return Entrant(partial(Owner, policy, pool), policy)


def contenders(policy: Policy, pool: str) -> dict[str, Entrant]:
    """All that can be compared under one policy, by name."""
    simple = {name: Entrant(make, policy) for name, make in baselines(policy.tiers).items()}
    return {**simple, HEADRACE: headrace(policy, pool)}


def compare(
    course: Course,
    entrants: Mapping[str, Entrant],
    seeds: Iterable[int],
    done: Callable[[str, int], None] = lambda _name, _seed: None,
    series: dict[str, Series] | None = None,
) -> dict[str, list[Figures]]:
    """The figures of each contender, a run for each seed. `done` is told of each run; `series` gets how each went over time
    under the first seed. Raises TraceError.
    """
    found: dict[str, list[Figures]] = {name: [] for name in entrants}
    for seed in seeds:
        jobs = draw(course.trace, course.scenario, course.policy, course.models, seed)
        for name, entrant in entrants.items():
            recorded = None
            if series is not None and name not in series:
                recorded = series[name] = Series(sum(model.slots for model in course.models))
            found[name].append(run(course, entrant, [replace(job) for job in jobs], seed, recorded))
            done(name, seed)
    return found


def run(
    course: Course, entrant: Entrant, jobs: list[Job], seed: int, series: Series | None = None
) -> Figures:
    """One run on these requests, which are changed by it. `series` gets how it went over time."""
    backends = [Backend(model) for model in course.models]
    contender = entrant.make(backends, seed)
    last_ms = jobs[-1].at_ms
    window = Window(min(course.warm_ms, last_ms // 2), last_ms)
    weights = {name: tenant.weight for name, tenant in entrant.policy.tenants.items()}
    gap = GapWatch(entrant.policy.pools[course.pool].cost, weights)
    until_ms = last_ms + course.drain_ms
    seen = None if series is None else series.samples.append
    World(jobs, backends, contender, window=window, gap=gap, until_ms=until_ms, seen=seen).run()
    figures = figures_of(
        jobs,
        window,
        slots=sum(model.slots for model in course.models),
        served=sum(gap.served.values()),
        gap=gap.worst,
        promised_gap=contender.promised_gap(),
    )
    if series is not None:
        series.jobs, series.rate, series.bound = jobs, figures.rate, figures.promised_gap
    return figures
