"""What a run did to callers and to the pool, in figures. Called by comparing when a run has ended.

Invariant: what is measured has arrived, or was done, inside the run's window; the beginning, when the pool fills up, and the
end, when nobody comes any more, are outside.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from headrace.contracts.prefixes import BLOCK_TOKENS
from headrace.scheduler.simulate.jobs import Fate, Job
from headrace.scheduler.simulate.world import Window


class Waits(Struct, frozen=True):
    """How a group of requests fared. Waits are ms from arrival to a slot, of those that got one; None: none did.

    `on_time`: the share of all that finished, by their deadline where they had one; without what has none and is under way.
    """

    requests: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None
    on_time: float | None


class Figures(Struct, frozen=True, kw_only=True):
    """One run. Shares are of 1. `goodput`: slot time that went into what was on time, over all slot time there was; `busy`:
    slot time with work; `lost`: with work that was put back; `idle`: without, although requests waited. `rate`: micro service
    units a second. `gap` and `promised_gap`: the same units over weight. `inside_p95`: requests waiting inside a backend.
    `hits`: prompt tokens found in a cache, over those that one cache without end would have; None: it would have none.
    `tokens`: prompt and output tokens a second of what finished.
    """

    all: Waits
    tiers: dict[str, Waits]
    tenants: dict[str, Waits]
    goodput: float
    busy: float
    lost: float
    idle: float
    rate: int
    gap: int
    promised_gap: int | None
    inside_p95: int
    dropped: int
    cancelled: int
    under_way: int
    hits: float | None = None
    tokens: float = 0.0

    def seconds_of(self, units: int | None) -> float | None:
        """So many micro service units as seconds of the pool's service."""
        return None if units is None or not self.rate else units / self.rate


def figures_of(
    jobs: Sequence[Job], window: Window, *, slots: int, served: int, gap: int, promised_gap: int | None
) -> Figures:
    """The figures of a run that has ended. `served`: micro service units until then."""
    measured = [job for job in jobs if window.from_ms <= job.at_ms <= window.to_ms]
    capacity_ms = slots * window.length_ms
    good_ms = sum(_overlap_ms(job, window) for job in jobs if job.on_time)
    last_ms = max((job.ended_ms or 0 for job in jobs), default=0)
    fates = [job.fate for job in measured]
    return Figures(
        all=_waits_of(measured),
        tiers=_by(measured, lambda job: job.tier),
        tenants=_by(measured, lambda job: job.tenant),
        goodput=good_ms / capacity_ms,
        busy=window.busy_ms / capacity_ms,
        lost=window.lost_ms / capacity_ms,
        idle=window.idle_ms / capacity_ms,
        rate=served * 1_000 // max(1, last_ms),
        gap=gap,
        promised_gap=promised_gap,
        inside_p95=percentile(window.inside, 95) or 0,
        dropped=fates.count(Fate.DROPPED),
        cancelled=fates.count(Fate.CANCELLED),
        under_way=fates.count(Fate.UNDER_WAY),
        hits=_hits(jobs, measured),
        tokens=_tokens(jobs, window) * 1_000 / window.length_ms,
    )


def _hits(jobs: Sequence[Job], measured: Sequence[Job]) -> float | None:
    known, best = set[int](), dict[int, int]()
    for job in jobs:
        seen = next((n for n, block in enumerate(job.blocks) if block not in known), len(job.blocks))
        best[job.number] = min(seen * BLOCK_TOKENS, job.input_tokens)
        known.update(job.blocks)
    begun = [job for job in measured if job.started_ms is not None]
    perfect = sum(best[job.number] for job in begun)
    return sum(job.cached_tokens for job in begun) / perfect if perfect else None


def _tokens(jobs: Sequence[Job], window: Window) -> int:
    ended = (job for job in jobs if job.fate is Fate.FINISHED and job.ended_ms is not None)
    inside = (job for job in ended if window.from_ms <= (job.ended_ms or 0) <= window.to_ms)
    return sum(job.input_tokens + job.output_tokens for job in inside)


def percentile(values: Iterable[int], percent: int) -> int | None:
    """The least value that so many percent of all don't exceed; None of nothing."""
    ranked = sorted(values)
    return ranked[-(-len(ranked) * percent // 100) - 1] if ranked else None


def _by(jobs: Sequence[Job], key: Callable[[Job], str]) -> dict[str, Waits]:
    return {
        name: _waits_of([job for job in jobs if key(job) == name]) for name in sorted(set(map(key, jobs)))
    }


def _waits_of(jobs: Sequence[Job]) -> Waits:
    waits = sorted(job.started_ms - job.at_ms for job in jobs if job.started_ms is not None)
    ended = [job for job in jobs if job.fate is not Fate.UNDER_WAY or job.deadline_ms is not None]
    return Waits(
        requests=len(jobs),
        p50_ms=percentile(waits, 50),
        p95_ms=percentile(waits, 95),
        p99_ms=percentile(waits, 99),
        on_time=sum(job.on_time for job in ended) / len(ended) if ended else None,
    )


def _overlap_ms(job: Job, window: Window) -> int:
    """How long it had the slot that it ended in, inside the window, and those in which it said what it went on from."""
    if job.kept_ms is None or job.ended_ms is None:
        return 0
    return job.gained_ms + max(0, min(job.ended_ms, window.to_ms) - max(job.kept_ms, window.from_ms))
