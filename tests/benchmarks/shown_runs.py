"""What the pictures of benchmarks.guarantees are made of: a run's points, waits and sentences."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from msgspec.structs import replace

from headrace.cli.charts import Panel, picture
from headrace.contracts.policy import CostWeights, Policy, policy_from
from headrace.scheduler.simulate.backend import BackendModel
from headrace.scheduler.simulate.figures import percentile
from headrace.scheduler.simulate.jobs import Job
from tests.support.scheduler.watched import POOL, Look, Watched

MODEL, TIME = BackendModel(32), "time (minutes)"
THOUSAND = 10**9
"""A thousand service units."""
Judged = tuple[bool, str]
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture as SVG, and what its run was found to have kept or not."""

    svg: str
    judged: Sequence[Judged]


def policy(tenants: Mapping[str, Mapping[str, Any]], **more: Any) -> Policy:
    """One pool, and the tiers as they are by default."""
    return policy_from({"pools": {POOL: {"models": {"m": "m"}}}, "tenants": tenants, **more})


def over_time(run: Watched, value: Callable[[Look], float]) -> Points:
    """Some two hundred points, by minutes."""
    step = max(1, len(run.looks) // 200)
    return [(second / 60, value(look)) for second, look in enumerate(run.looks) if second % step == 0]


def p95_of(run: Watched, whose: Sequence[bool]) -> int:
    """Milliseconds; who never got a slot has waited until the run ended."""
    waits = [run.waited_ms(job) for job, chosen in zip(run.jobs, whose, strict=True) if chosen]
    return percentile(waits, 95) or 0


def told(units: float | Fraction, run: Watched) -> str:
    """Micro service units, in seconds of the pool's service too."""
    return (
        f"{round(units) / 10**6:,.0f} units ({run.figures.seconds_of(round(units)) or 0:.1f} s of the pool)"
    )


def shown(title: str, panel: Panel, *judged: Judged) -> Shown:
    return Shown(picture(title, [[panel]], height=320), judged)


def service_of(tenant: str) -> Callable[[Look], float]:
    """In thousands."""
    return lambda look: look.of_tenant(tenant) / THOUSAND


def gap_of(look: Look) -> float:
    """Between two tenants, in thousands."""
    return look.gap / THOUSAND


def by_tokens(rules: Policy) -> Policy:
    """Each token costs one unit, so that service is in tokens."""
    cost = CostWeights(prompt=10**6, cached=10**6, completion=10**6)
    return replace(rules, pools={POOL: replace(rules.pools[POOL], cost=cost)})


def asked(jobs: Sequence[Job], seconds: int, tenant: str) -> Points:
    """Thousands of tokens so far."""
    total, points, unread = 0, Points(), deque(job for job in jobs if job.tenant == tenant)
    for second in range(0, seconds, max(1, seconds // 200)):
        while unread and unread[0].at_ms <= 1_000 * second:
            job = unread.popleft()
            total += job.input_tokens + job.output_tokens
        points.append((second / 60, total / 1_000))
    return points


def waits_of(run: Watched, tier: str) -> Points:
    """Seconds of the p95 wait, of those that arrived in each of 24 parts of the run."""
    step_ms = run.jobs[-1].at_ms // 24 + 1
    parts: dict[int, list[int]] = {}
    for job in run.jobs:
        if job.tier == tier:
            parts.setdefault(job.at_ms // step_ms, []).append(run.waited_ms(job))
    return [
        (part * step_ms / 60_000, (percentile(waits, 95) or 0) / 1_000)
        for part, waits in sorted(parts.items())
    ]


def on_time(run: Watched, tenant: str) -> float:
    """Percent of its requests."""
    mine = [job for job in run.jobs if job.tenant == tenant]
    return 100 * sum(job.on_time for job in mine) / len(mine)
