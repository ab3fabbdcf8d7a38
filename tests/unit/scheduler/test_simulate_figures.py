"""The figures of a simulated run."""

from headrace.contracts.policy import CostWeights
from headrace.scheduler.simulate.figures import figures_of
from headrace.scheduler.simulate.gap import GapWatch
from headrace.scheduler.simulate.jobs import Fate
from headrace.scheduler.simulate.world import Window
from tests.support.scheduler.simulated_jobs import job


def test_the_figures_of_a_known_run() -> None:
    jobs = [job(n, at_ms=1_000 * n, deadline_ms=10_000) for n in range(4)]
    done, dropped = Fate.FINISHED, Fate.DROPPED
    ends = [(0, 1_000, done), (1_500, 3_500, done), (None, 2_500, dropped), (3_000, 11_000, done)]
    for each, (start, end, fate) in zip(jobs, ends, strict=True):
        each.started_ms = each.kept_ms = start
        each.ended_ms, each.fate = end, fate
    window = Window(500, 4_500, busy_ms=2_000, idle_ms=400, inside=[0, 3])
    told = figures_of(jobs, window, slots=2, served=11_000_000, gap=2_000_000, promised_gap=None)
    assert (told.goodput, told.busy, told.idle, told.inside_p95) == (2_500 / 8_000, 0.25, 0.05, 3)
    assert (told.all.requests, told.all.p50_ms, told.all.p99_ms, told.all.on_time) == (3, 0, 500, 1 / 3)
    assert (told.rate, told.seconds_of(told.gap), told.dropped) == (1_000_000, 2.0, 1)


def test_a_gap_counts_only_while_both_have_requests_waiting() -> None:
    watch = GapWatch(CostWeights(prompt=0, cached=0, completion=1), {"t0": 2})
    mine, other = job(0, tenant="t0"), job(1, tenant="t1")
    watch.waits(mine)
    watch.sample({})
    watch.left(job(2, tenant="t0", tokens=100), 100)
    watch.waits(other)
    watch.sample({})
    assert watch.worst == 0
    watch.left(job(3, tenant="t0", tokens=100), 100)
    watch.left(job(4, tenant="t1", tokens=20), 20)
    watch.sample({})
    assert watch.worst == 30
    watch.waits_no_more(other)
    watch.waits(other)
    watch.left(job(5, tenant="t0", tokens=900), 900)
    watch.sample({})
    assert watch.worst == 30
