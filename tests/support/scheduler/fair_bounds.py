"""Watches a run of the queue alone: how far tenants of a tier came apart, how far a tier fell behind its share; beside the
bounds of docs/scheduling.md, from what the run itself showed of slots, charges and their errors. Used by the property tests.

Invariant: an interval counts only while whoever is compared was backlogged throughout, and never passed over for having had
all the slots that it may have.
"""

from fractions import Fraction
from itertools import combinations

from tests.support.scheduler.queue_alone import QueueAlone, Whose


class BoundsWatch:
    """`worst_lag`, `worst_gap`: of counters and of service, over weight; `worst_debt`: by how much each tier fell behind."""

    def __init__(self, run: QueueAlone) -> None:
        self._run = run
        self.worst_lag, self.worst_gap = Fraction(0), Fraction(0)
        self.worst_debt: dict[str, Fraction] = {}
        self._pairs: dict[tuple[Whose, Whose], tuple[Fraction, Fraction]] = {}
        self._ahead: dict[str, Fraction] = {}
        """By tier: the most by which it was ahead of its share of all work, since it is backlogged."""

    def look(self) -> None:
        """Now. Call after whatever happened."""
        run = self._run
        busy = {tier: sorted(tenants) for tier, tenants in run.compared().items()}
        pairs = {}
        for tier, tenants in busy.items():
            for one, other in combinations(tenants, 2):
                lag = abs(run.counter(one, tier) - run.counter(other, tier))
                self.worst_lag = max(self.worst_lag, lag)
                apart = self._service(tier, one) - self._service(tier, other)
                pair = ((tier, one), (tier, other))
                least, most = self._pairs.get(pair, (apart, apart))
                if run.passed & set(pair):
                    least = most = apart
                pairs[pair] = min(least, apart), max(most, apart)
                self.worst_gap = max(self.worst_gap, pairs[pair][1] - pairs[pair][0])
        self._pairs = pairs
        run.passed.clear()
        self._look_at_tiers([tier for tier, tenants in busy.items() if tenants])

    def _look_at_tiers(self, busy: list[str]) -> None:
        run = self._run
        work, ahead = sum(run.got.values()), {}
        for tier in busy:
            share = run.accounts.tiers[tier].account.share
            now = sum(got for (name, _), got in run.got.items() if name == tier) - share * work
            ahead[tier] = max(self._ahead.get(tier, now), now)
            self.worst_debt[tier] = max(self.worst_debt.get(tier, Fraction(0)), ahead[tier] - now)
        self._ahead = ahead

    def _service(self, tier: str, tenant: str) -> Fraction:
        return Fraction(self._run.got[tier, tenant], self._run.weights.get(tenant, 1))

    @property
    def lag_bound(self) -> Fraction:
        """B = c_max + K*D/w_min; each of K charges may be rounded up by one micro unit."""
        run = self._run
        lightest = min(run.weights.values(), default=1)
        return run.most_charge + run.slots * Fraction(run.most_error, lightest) + run.slots + 1

    @property
    def gap_bound(self) -> Fraction:
        """G = 2*(B + K*c_max)."""
        return 2 * (self.lag_bound + self._run.slots * self._run.most_charge)

    def debt_bound(self, tier: str) -> Fraction:
        """(phi*J + 1)*c_max + 2K(D + c_max)."""
        run = self._run
        share = run.accounts.tiers[tier].account.share
        settling = 2 * run.slots * (run.most_error + run.most_cost)
        return (share * len(run.accounts.tiers) + 1) * run.most_cost + settling

    def wrong(self) -> list[str]:
        """What was promised and didn't hold."""
        found = []
        if self.worst_lag > self.lag_bound:
            found.append(f"counters {float(self.worst_lag / self.lag_bound):.3f} of the bound apart")
        if self.worst_gap > self.gap_bound:
            found.append(f"service {float(self.worst_gap / self.gap_bound):.3f} of the bound apart")
        found += [
            f"tier {tier} {float(debt / self.debt_bound(tier)):.3f} of the bound behind its share"
            for tier, debt in self.worst_debt.items()
            if debt > self.debt_bound(tier)
        ]
        return found
