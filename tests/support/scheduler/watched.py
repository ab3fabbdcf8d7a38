"""A simulated run with what its guarantees are about: who got how much service, and who had how many slots, each second.

Used by the pictures of docs/scheduling.md and their tests. Invariant: watching changes nothing of a run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from headrace.contracts.policy import CostWeights, Policy
from headrace.scheduler.decisions.estimate_cost import spent_cost
from headrace.scheduler.simulate.backend import Backend, BackendModel
from headrace.scheduler.simulate.comparing import contenders
from headrace.scheduler.simulate.contender import Contender
from headrace.scheduler.simulate.figures import Figures, figures_of
from headrace.scheduler.simulate.gap import GapWatch
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.owner import Owner
from headrace.scheduler.simulate.records import usage_of
from headrace.scheduler.simulate.world import Window, World
from tests.support.scheduler.changing_owner import Change, ChangingOwner

POOL = "main"
SECOND_MS = 1_000


class Look(NamedTuple):
    """One look. `service` by tier and tenant, micro service units since the run began; `slots` and `waiting` by tenant;
    `gap`: as Sample.gap.
    """

    service: Mapping[tuple[str, str], int]
    slots: Mapping[str, int]
    waiting: Mapping[str, int]
    gap: int

    @property
    def work(self) -> int:
        """All service together."""
        return sum(self.service.values())

    def of_tier(self, tier: str) -> int:
        """Its work so far."""
        return sum(got for (name, _), got in self.service.items() if name == tier)

    def of_tenant(self, tenant: str) -> int:
        """The same of a tenant in all tiers."""
        return sum(got for (_, name), got in self.service.items() if name == tenant)


class Watch(GapWatch):
    """Looks each second, from the first on."""

    def __init__(self, cost: CostWeights, weights: Mapping[str, int]) -> None:
        super().__init__(cost, weights)
        self._prices = cost
        self._queued: Counter[str] = Counter()
        self.looks: list[Look] = []
        self.begun: Counter[int] = Counter()

    def waits(self, job: Job) -> None:
        """As GapWatch.waits."""
        super().waits(job)
        self._queued[job.tenant] += 1

    def waits_no_more(self, job: Job) -> None:
        """As GapWatch.waits_no_more."""
        super().waits_no_more(job)
        self._queued[job.tenant] -= 1
        self.begun[job.number] += 1

    def sample(self, running: Mapping[Job, int], aside: Set[str] = frozenset()) -> None:
        """As GapWatch.sample."""
        super().sample(running, aside)
        service, slots = Counter(self.served), Counter[str]()
        for job, tokens in running.items():
            if job.started_ms is not None:
                service[job.tier, job.tenant] += spent_cost(usage_of(job, tokens), self._prices)
                slots[job.tenant] += 1
        self.looks.append(Look(service, slots, dict(self._queued), self.now))


@dataclass(frozen=True, slots=True)
class Watched:
    """One run that has ended. `charge` and `error`: c and D of docs/scheduling.md as the run showed them, 0 of what isn't
    headrace; `slots`: its K; `until_ms`: when it ended; `begun`: how often each request was, by its number.
    """

    jobs: Sequence[Job]
    looks: Sequence[Look]
    figures: Figures
    slots: int
    until_ms: int
    charge: int = 0
    error: int = 0
    begun: Mapping[int, int] = field(default_factory=dict)

    @property
    def lag_bound(self) -> int:
        """B, micro service units over weight."""
        return self.charge + self.slots * self.error

    @property
    def gap_bound(self) -> int:
        """G, micro service units over weight."""
        return self.figures.promised_gap or 0

    def waited_ms(self, job: Job) -> int:
        """Until it had a slot, or until the run ended."""
        return (self.until_ms if job.started_ms is None else job.started_ms) - job.at_ms

    def floor_bound(self, share: Fraction, tiers: int) -> Fraction:
        """By how much a tier may be behind its share: (phi*J + 1)*c + 2*K*(D + c). Exact where all weights are 1."""
        return (share * tiers + 1) * self.charge + 2 * self.slots * (self.error + self.charge)


def watched(
    jobs: Sequence[Job],
    policy: Policy,
    model: BackendModel,
    name: str = "headrace",
    drain_ms: int = 0,
    changes: Mapping[int, Change] | None = None,
) -> Watched:
    """One run of a contender on copies of these requests, watched until the last has come and so long after. `changes`: what
    happens meanwhile to the pool's owner, where the contender has one.
    """
    jobs, backends = [replace(job) for job in jobs], [Backend(model)]
    contender: Contender = contenders(policy, POOL)[name].make(backends, 0)
    if changes and isinstance(contender, Owner):
        contender = ChangingOwner(policy, POOL, backends, 0, changes)
    window = Window(0, jobs[-1].at_ms)
    watch = Watch(policy.pools[POOL].cost, {name: tenant.weight for name, tenant in policy.tenants.items()})
    until_ms = window.to_ms + SECOND_MS + drain_ms
    World(jobs, backends, contender, window=window, gap=watch, until_ms=until_ms).run()
    figures = figures_of(
        jobs, window, slots=model.slots, served=sum(watch.served.values()), gap=watch.worst,
        promised_gap=contender.promised_gap(),
    )  # fmt: skip
    promise = contender._promise if isinstance(contender, Owner) else None
    charge, error = (promise._charge, promise._error) if promise else (0, 0)
    return Watched(jobs, watch.looks, figures, model.slots, until_ms, charge, error, watch.begun)
