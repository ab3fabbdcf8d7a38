"""How a run went over time, for pictures: sampled each second by the world, read by the command line's plots.

Invariant: recording changes nothing of a run; times are ms since its begin.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.scheduler.simulate.figures import percentile
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.world import Sample


class WaitsOver(NamedTuple):
    """Waits of those that arrived in a part of the run, ms: of half of them at most so long, of 95 % at most so long."""

    from_ms: int
    p50_ms: int
    p95_ms: int


@dataclass(slots=True)
class Series:
    """One run of one contender. `rate`: micro service units a second; `bound`: what the gap is promised to stay within."""

    slots: int
    samples: list[Sample] = field(default_factory=list)
    jobs: Sequence[Job] = ()
    rate: int = 0
    bound: int | None = None

    @property
    def length_ms(self) -> int:
        """From the begin to the last arrival: what comes after it shows nothing of a policy."""
        return max((job.at_ms for job in self.jobs), default=0)

    @property
    def tiers(self) -> list[str]:
        """Those of which anything came."""
        return sorted({job.tier for job in self.jobs})

    def waits_of(self, tier: str, step_ms: int) -> list[WaitsOver]:
        """Part by part of so many ms, without those in which nobody came who got a slot."""
        parts: dict[int, list[int]] = {}
        for job in self.jobs:
            if job.tier == tier and job.started_ms is not None:
                parts.setdefault(job.at_ms // step_ms, []).append(job.started_ms - job.at_ms)
        return [
            WaitsOver(number * step_ms, percentile(waits, 50) or 0, percentile(waits, 95) or 0)
            for number, waits in sorted(parts.items())
        ]

    def goodput(self, step_ms: int) -> list[tuple[int, float]]:
        """Of all slot time of each part, what went into requests that were on time."""
        good = dict.fromkeys(range(self.length_ms // step_ms), 0.0)
        for job in self.jobs:
            for from_ms, to_ms, share in _good_time(job) if job.on_time else ():
                for number, spent_ms in _parts_of(from_ms, to_ms, step_ms):
                    if number in good:
                        good[number] += share * spent_ms
        return [(number * step_ms, spent / (self.slots * step_ms)) for number, spent in good.items()]

    def seconds_of(self, units: int) -> float:
        """So many micro service units as seconds of the pool's service."""
        return units / self.rate if self.rate else 0.0


def _good_time(job: Job) -> Iterator[tuple[int, int, float]]:
    """When it had a slot, and the share of that which went into its answer. When it said what it went on from, nobody noted:
    some time between its first slot and its last.
    """
    if job.kept_ms is None or job.ended_ms is None:
        return
    yield job.kept_ms, job.ended_ms, 1.0
    if job.started_ms is not None and job.started_ms < job.kept_ms:
        yield job.started_ms, job.kept_ms, job.gained_ms / (job.kept_ms - job.started_ms)


def _parts_of(from_ms: int, to_ms: int, step_ms: int) -> Iterable[tuple[int, int]]:
    """What of a stretch lies in each part."""
    for number in range(from_ms // step_ms, to_ms // step_ms + 1):
        yield number, min(to_ms, (number + 1) * step_ms) - max(from_ms, number * step_ms)
