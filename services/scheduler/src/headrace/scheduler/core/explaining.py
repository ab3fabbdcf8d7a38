"""Says why a request isn't running: gates, who is ahead, its tenant's share, and what the estimate rests on.

Called by core.answering for queries and by core.quoting. Invariant: reads the state and changes nothing; what it walks is
bounded, however much waits.
"""

from fractions import Fraction

from headrace.contracts.explanations import Ahead, Basis, RateFrom, Share, Why
from headrace.contracts.policy import SERVICE_UNIT
from headrace.contracts.requests import RequestRecord
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.gates_now import GatesNow
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.rates import Rates
from headrace.scheduler.decisions.estimate_cost import cap_of, capped
from headrace.scheduler.decisions.who_is_ahead import Going, Line, counter_at_turn, goes_before
from headrace.scheduler.state.ahead import Before
from headrace.scheduler.state.tracked import Phase, Tracked

MOST_LINES = 2_048
"""Tenants that are looked at one by one; of more, so many evenly spaced ones stand for all."""


class Explaining:
    """The owner's reasons."""

    def __init__(self, state: PoolState, rates: Rates, estimating: Estimating, gates: GatesNow) -> None:
        self._state, self._rates, self._estimating, self._gates = state, rates, estimating, gates

    def why(self, request_id: str, own: Before | None) -> Why:
        """Of a request, wherever it is. `own`: what of its tenant goes before it, where it waits for its turn."""
        tracked = self._state.tracked.look(request_id)
        if tracked is None or tracked.phase in (Phase.ENDING, Phase.FINISHED):
            return self.of_unknown()
        if tracked.phase is Phase.HELD:
            return Why(share=self._share(tracked.record), basis=self._basis(tracked.record))
        record = tracked.record
        own = own or self._state.queue.ahead_of(record, tracked.order)
        return self.of_waiting(record, own, tracked)

    def of_unknown(self) -> Why:
        """Of one that isn't known, or not yet."""
        return Why(closed=self._gates.of_unknown())

    def of_waiting(self, record: RequestRecord, own: Before, tracked: Tracked | None = None) -> Why:
        """Of one that waits; `tracked` None: of one that came now."""
        return Why(
            closed=self._gates.of(record.tier, record.tenant, tracked),
            ahead=self._ahead(record, own),
            share=self._share(record),
            basis=self._basis(record),
        )

    def _ahead(self, record: RequestRecord, own: Before) -> Ahead:
        accounts = self._state.accounts
        others, tenants, exact = self._rivals(record, own.cost)
        tier = accounts.tiers[record.tier].account
        tag = counter_at_turn(tier.value, tier.share, own.cost + others.cost)
        tiers = {record.tier: Going(own.requests + others.requests, own.cost + others.cost)}
        for name, line in self._lines_of_tiers():
            if name != record.tier:
                tiers[name] = goes_before(line, record.tier, tag)
        return Ahead(
            own=own.requests,
            others=others.requests,
            tenants=tenants,
            tiers={name: going.requests for name, going in tiers.items() if going.requests},
            cost=-(-sum(going.cost for going in tiers.values()) // SERVICE_UNIT),
            exact=own.exact and exact,
        )

    def _rivals(self, record: RequestRecord, own_cost: int) -> tuple[Going, int, bool]:
        """What of its tier's other tenants goes before it, of how many of them, and whether all were looked at."""
        queue, tier, tenant = self._state.queue, record.tier, record.tenant
        account = self._state.accounts.seen(tier, tenant)
        counter = counter_at_turn(queue.counter_when_waiting(tier, tenant), account.share, own_cost)
        lines, all_of_them = queue.lines(tier, MOST_LINES), queue.tenants(tier)
        frozen = queue.frozen
        rivals = (line for line in lines if line.name != tenant and not frozen.bars(tier, line.name))
        found = [goes_before(line, tenant, counter) for line in rivals]
        going = [each for each in found if each.requests]
        scale = Fraction(all_of_them, max(1, len(lines)))
        requests, cost = (int(sum(each) * scale) for each in zip(*going, strict=True)) if going else (0, 0)
        return Going(requests, cost), int(len(going) * scale), len(lines) == all_of_them

    def _lines_of_tiers(self) -> list[tuple[str, Line]]:
        accounts, queue = self._state.accounts, self._state.queue
        return [
            (name, Line(name, of.account.value, of.account.share, *queue.backlog_of_tier(name)))
            for name, of in accounts.tiers.items()
            if not queue.frozen.has_tier(name)
        ]

    def _share(self, record: RequestRecord) -> Share:
        state, tier, tenant = self._state, record.tier, record.tenant
        weight, served = state.accounts.weight_of(tenant), state.served
        return Share(
            weight=weight,
            waiting_weight=state.queue.others_weight(tier, tenant) + weight,
            part_permille=int(1_000 * state.queue.share(tier, tenant)),
            tier_permille=int(1_000 * state.queue.share_of_tier(tier)),
            got_permille=min(1_000, 1_000 * served.of_tenant(tier, tenant) // max(1, served.total)),
            served_milli=self._rates.served_by_tenant(tier, tenant) * 1_000 // SERVICE_UNIT,
            pool_served_milli=self._rates.of_pool() * 1_000 // SERVICE_UNIT,
            in_flight=state.accounts.seen(tier, tenant).in_flight,
        )

    def _basis(self, record: RequestRecord) -> Basis:
        length = capped(self._estimating.length_of(record), cap_of(record))
        source, answers = self._estimating.source_of(record)
        speed = self._state.speeds.now(self._state.now.boot_ms)
        mean_ms, most_ms = (
            None if speed is None else speed.takes_ms(record.prompt_tokens, tokens) for tokens in length
        )
        rate = self._rates.of_tenant(record.tier, record.tenant)
        own = rate and rate == self._rates.served_by_tenant(record.tier, record.tenant)
        return Basis(
            prompt_tokens=record.prompt_tokens,
            answer_tokens=length.mean,
            most_answer_tokens=length.most,
            length_from=source,
            answers=answers,
            choices=record.choices,
            max_tokens=record.max_tokens,
            cost=-(-self._estimating.charge_of(record) // SERVICE_UNIT),
            takes_ms=mean_ms,
            takes_most_ms=most_ms,
            rate_milli=rate * 1_000 // SERVICE_UNIT,
            rate_from=RateFrom.SERVED if own else RateFrom.SHARE if rate else RateFrom.NOTHING,
        )
