"""How far tenants come apart: the service that two of a tier received while both had requests waiting. Fed by the world.

Invariant: an interval counts only while both were backlogged throughout, and below their ceilings; service counts when the
engine gives it, over the tenant's weight; intervals begin and end at samples, so what is found is at most what was.
"""

from collections import defaultdict
from collections.abc import Mapping, Set
from itertools import combinations

from headrace.contracts.policy import CostWeights
from headrace.scheduler.decisions.estimate_cost import spent_cost
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.records import usage_of

_Whose = tuple[str, str]
"""Tier and tenant."""


class GapWatch:
    """Watches one run. `worst`, and `now` at the last sample: micro service units over weight; `served`: by tier and tenant,
    micro service units.
    """

    def __init__(self, cost: CostWeights, weights: Mapping[str, int]) -> None:
        self._cost, self._weights = cost, weights
        self._waiting: defaultdict[_Whose, int] = defaultdict(int)
        self._paused: set[_Whose] = set()
        """Who had nothing waiting at some moment since the last sample."""
        self._pairs: dict[tuple[_Whose, _Whose], tuple[int, int]] = {}
        """The least and the greatest difference of two tenants since both are backlogged."""
        self.served: defaultdict[_Whose, int] = defaultdict(int)
        self.worst = self.now = 0

    def waits(self, job: Job) -> None:
        """It has arrived."""
        self._waiting[job.tier, job.tenant] += 1

    def waits_no_more(self, job: Job) -> None:
        """It was sent to a backend, or dropped."""
        whose = (job.tier, job.tenant)
        self._waiting[whose] -= 1
        if not self._waiting[whose]:
            self._paused.add(whose)

    def left(self, job: Job, tokens: int) -> None:
        """It has left its backend, after so many output tokens."""
        self.served[job.tier, job.tenant] += spent_cost(usage_of(job, tokens), self._cost)

    def sample(self, running: Mapping[Job, int], aside: Set[str] = frozenset()) -> None:
        """Compare, given what is at a backend with its output tokens so far, and who was over a ceiling of late."""
        service = dict(self.served)
        for job, tokens in running.items():
            if job.started_ms is not None:
                whose = (job.tier, job.tenant)
                service[whose] = service.get(whose, 0) + spent_cost(usage_of(job, tokens), self._cost)
        backlogged = sorted(
            whose for whose, count in self._waiting.items() if count and whose[1] not in aside
        )
        pairs: dict[tuple[_Whose, _Whose], tuple[int, int]] = {}
        for pair in combinations(backlogged, 2):
            if pair[0][0] == pair[1][0]:
                pairs[pair] = self._compare(pair, service)
        self._pairs, self._paused = pairs, set()
        self.now = max((greatest - least for least, greatest in pairs.values()), default=0)

    def _compare(self, pair: tuple[_Whose, _Whose], service: Mapping[_Whose, int]) -> tuple[int, int]:
        one, other = (service.get(whose, 0) // self._weights.get(whose[1], 1) for whose in pair)
        least, greatest = self._pairs.get(pair, (one - other, one - other))
        if pair[0] in self._paused or pair[1] in self._paused:
            least = greatest = one - other
        least, greatest = min(least, one - other), max(greatest, one - other)
        self.worst = max(self.worst, greatest - least)
        return least, greatest
