"""Figures of many seeds as one: a mean and how sure it is. Called by `headrace simulate` and the benchmarks."""

from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from statistics import fmean, stdev

from msgspec import Struct

from headrace.scheduler.simulate.figures import Figures, Waits

_SURE = 1.96
"""Half-widths of 95 %, in standard errors of a mean."""


class Mean(Struct, frozen=True):
    """Over seeds: the mean, and by how much it may be off at 95 % (0 of one seed). Both None: no seed has that figure."""

    mean: float | None
    within: float | None


class Group(Struct, frozen=True):
    """A tier's or tenant's figures over all seeds: requests of one run, waits in ms, the share on time."""

    requests: Mean
    p50_ms: Mean
    p95_ms: Mean
    p99_ms: Mean
    on_time: Mean


class Summary(Struct, frozen=True, kw_only=True):
    """One contender over all seeds; the fields are those of Figures, gaps besides in seconds of the pool's service.

    `worst_gap` and `promised_gap` are of the seed whose gap came nearest to its promise, or was the greatest without one.
    """

    seeds: int
    all: Group
    tiers: dict[str, Group]
    tenants: dict[str, Group]
    goodput: Mean
    busy: Mean
    idle: Mean
    inside_p95: Mean
    dropped: Mean
    cancelled: Mean
    under_way: Mean
    worst_gap: int
    worst_gap_s: float | None
    promised_gap: int | None
    promised_gap_s: float | None
    hits: Mean
    tokens: Mean


def summary_of(runs: Sequence[Figures]) -> Summary:
    """The summary of a contender's runs, one at least."""

    def mean(figure: Callable[[Figures], float | None]) -> Mean:
        return mean_of(map(figure, runs))

    worst = max(runs, key=lambda run: run.gap / (run.promised_gap or 1))
    return Summary(
        seeds=len(runs),
        all=_group([run.all for run in runs]),
        tiers=_groups([run.tiers for run in runs]),
        tenants=_groups([run.tenants for run in runs]),
        goodput=mean(lambda run: run.goodput),
        busy=mean(lambda run: run.busy),
        idle=mean(lambda run: run.idle),
        inside_p95=mean(lambda run: run.inside_p95),
        dropped=mean(lambda run: run.dropped),
        cancelled=mean(lambda run: run.cancelled),
        under_way=mean(lambda run: run.under_way),
        worst_gap=worst.gap,
        worst_gap_s=worst.seconds_of(worst.gap),
        promised_gap=worst.promised_gap,
        promised_gap_s=worst.seconds_of(worst.promised_gap),
        hits=mean(lambda run: run.hits),
        tokens=mean(lambda run: run.tokens),
    )


def mean_of(values: Iterable[float | None]) -> Mean:
    """The mean of what is there."""
    known = [value for value in values if value is not None]
    if not known:
        return Mean(None, None)
    return Mean(fmean(known), _SURE * stdev(known) / sqrt(len(known)) if len(known) > 1 else 0.0)


def _groups(runs: Sequence[dict[str, Waits]]) -> dict[str, Group]:
    names = sorted({name for run in runs for name in run})
    return {name: _group([run[name] for run in runs if name in run]) for name in names}


def _group(runs: Sequence[Waits]) -> Group:
    return Group(
        requests=mean_of(run.requests for run in runs),
        p50_ms=mean_of(run.p50_ms for run in runs),
        p95_ms=mean_of(run.p95_ms for run in runs),
        p99_ms=mean_of(run.p99_ms for run in runs),
        on_time=mean_of(run.on_time for run in runs),
    )
