"""A run and a picture of what a change of owner, and a change of policy, do to shares. Two of the scenes of
tests.benchmarks.guarantees.
"""

from itertools import pairwise

from headrace.cli.charts import Line, Panel
from tests.benchmarks.shown_runs import (
    MODEL,
    THOUSAND,
    TIME,
    Shown,
    gap_of,
    over_time,
    policy,
    service_of,
    shown,
    told,
)
from tests.support.scheduler.changing_owner import Death
from tests.support.scheduler.sources import Source, sent
from tests.support.scheduler.watched import watched

DEATH = Death()


def owners(seconds: int = 600) -> Shown:
    """Atlas has twice birch's weight, both ask for more than they get, and the pool's owner is killed four times."""
    sources, rules = (
        [Source("atlas", 1.0), Source("birch", 3.0)],
        policy({"atlas": {"weight": 2}, "birch": {}}),
    )
    jobs, deaths_s = sent(sources, MODEL, seconds), [number * seconds // 5 for number in range(1, 5)]
    run = watched(jobs, rules, MODEL, changes=dict.fromkeys((1_000 * at for at in deaths_s), DEATH))
    fifo, bound = watched(jobs, rules, MODEL, "fifo"), run.gap_bound
    height = 1.5 * bound / THOUSAND
    lines = [
        Line("fifo", [at for at in over_time(fifo, gap_of) if at[1] <= height], 0),
        Line("headrace", over_time(run, gap_of), 1),
        Line("bound", [(at / 60, bound / THOUSAND) for at in (0, seconds)], 1, limit=True),
        Line("owner killed", [(at / 60, high) for at in deaths_s for high in (0, height / 4, 0)], 3),
    ]
    twice = sum(begun > 1 for begun in run.begun.values())
    return shown(
        "The gap between two tenants, whose pool's owner is killed four times",
        Panel(TIME, "gap (thousand units)", lines=lines),
        (
            run.figures.gap <= bound,
            f"over weight at most {told(run.figures.gap, run)} apart, over all owners; G is {told(bound, run)}",
        ),
        (twice == 0, f"{twice} of {len(run.begun):,} requests that ran were begun twice"),
        (
            run.figures.busy >= 1 - 2 * len(deaths_s) * DEATH.silent_ms / 1_000 / seconds,
            f"{100 * run.figures.busy:.1f} % of the slots were busy, {DEATH.silent_ms // 1_000} s without an owner each time",
        ),
    )  # fmt: skip


def policies(seconds: int = 600) -> Shown:
    """Atlas and birch have the same weight, and ask for more than they get; halfway the policy triples that of atlas."""
    sources, half_s, more = [Source("atlas", 1.0), Source("birch", 5.0)], seconds // 2, 3
    before, after = (policy({"atlas": {"weight": weight}, "birch": {}}) for weight in (1, more))
    run = watched(sent(sources, MODEL, seconds), before, MODEL, changes={1_000 * half_s: after})
    looks = run.looks[0], run.looks[half_s], run.looks[-1]
    (atlas, birch), (atlas_then, birch_then) = (
        [end.of_tenant(name) - begin.of_tenant(name) for name in ("atlas", "birch")]
        for begin, end in pairwise(looks)
    )
    bound, moved = run.gap_bound, run.gap_bound + run.slots * run.charge
    lines = [
        Line(name, over_time(run, service_of(name)), number) for number, name in enumerate(("atlas", "birch"))
    ]
    return shown(
        "Service by tenant: after half of the time the policy gives atlas three times the weight",
        Panel(TIME, "service so far (thousand units)", lines=lines),
        (abs(atlas - birch) <= bound, f"before it atlas got {atlas / birch:.2f} times what birch got"),
        (
            abs(atlas_then / more - birch_then) <= moved,
            f"after it {atlas_then / birch_then:.2f} times; G is {told(bound, run)}, {told(moved, run)} with K*c",
        ),
    )  # fmt: skip
