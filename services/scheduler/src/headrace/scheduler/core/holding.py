"""Learns how much each backend may hold, from what its worker reports and what became of its attempts.

Called by core.worker_log, attempt_log, dispatching, returning and releasing; core.quarantine asks for the room. Invariant:
what was learned is of one boot under one owner: a new boot, a death, a lapse or a takeover begins anew with what is held;
never more than the worker's own limit.
"""

from collections.abc import Iterable

from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.reports import Held, Report
from headrace.scheduler.core import backend_pacing
from headrace.scheduler.core.estimating import Estimating
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.step import BackendFigures
from headrace.scheduler.decisions.estimate_cost import cap_of
from headrace.scheduler.decisions.how_many_tokens_fit import Load, left_of
from headrace.scheduler.decisions.how_much_may_a_backend_hold import what_binds
from headrace.scheduler.state.backend_limits import BackendLimits
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Tracked
from headrace.scheduler.state.workers import Worker

_REFUSALS = frozenset({FailureKind.BACKEND_OVERLOADED, FailureKind.BACKEND_TIMEOUT})
_LATE_MS = 600
"""A first token is told so late at the most: by the next report, and on its way."""


class Holding:
    """What every backend holds well."""

    def __init__(self, state: PoolState, estimating: Estimating) -> None:
        self._state, self._estimating = state, estimating

    def reported(self, report: Report) -> None:
        """A worker that has answered this owner said what it holds, and what its engine's metrics say."""
        self._holds_besides(report)
        limits, boot_ms = self._limits_of(report), self._state.now.boot_ms
        limits.heard(report.gauges, boot_ms)
        held, besides = self._state.held.of_boot(report.boot), self._state.held.besides(report.boot)
        if limits.gauges is not None:
            for told in besides:
                limits.loads.put(told.id, self._load_unread(told.before + told.tokens, told.charge))
            for each in held:
                limits.loads.put(each.id, self._load_of(each, limits))
        limits.look(
            ceiling=report.limit,
            in_flight=self._state.held.count_of(report.boot),
            own_waiting=sum(self.is_late(each, limits) for each in held),
            peak=0 if limits.kv_tokens is None else limits.loads.peak,
            held_tokens=self._held_tokens(held, besides, limits),
            boot_ms=boot_ms,
        )

    def fits(self, tracked: Tracked, worker: Worker) -> bool:
        """Whether the request fits the worker's cache beside what it holds."""
        limits = self._state.limits.get(worker.boot)
        if limits is None or limits.kv_tokens is None:
            return True
        return limits.may_take(self._load_when_new(tracked))

    def released(self, tracked: Tracked, held: HeldAttempt) -> None:
        """The worker was given one more."""
        limits = self._state.limits.get(held.boot)
        if limits is None:
            return
        held.freed_ms = limits.holds(self._state.held.count_of(held.boot))
        if limits.kv_tokens is not None:
            limits.loads.put(held.id, self._load_when_new(tracked))

    def may_want_back(self, tracked: Tracked, worker: Worker) -> bool:
        """Whether it is large enough for the worker's cache to be taken back if that thrashes."""
        limits = self._state.limits.get(worker.boot)
        return limits is not None and limits.may_want_back(self._load_when_new(tracked))

    def nothing_to_release(self) -> None:
        """Nothing waits, or nothing fits: a slot that is free now isn't free because the next is on its way."""
        for limits in self._state.limits.values():
            limits.freed.clear()

    def may_be_given_nothing(self, boots: Iterable[str]) -> None:
        """Likewise, of these alone."""
        for boot in boots:
            if (limits := self._state.limits.get(boot)) is not None:
                limits.freed.clear()

    def ended(self, outcome: Outcome) -> None:
        """An attempt's outcome, once. Call it before the attempt is let go."""
        record, own = outcome.record, outcome.own
        limits, times = self._state.limits.get(record.boot or ""), record.times
        if limits is None:
            return
        failed = None if record.failure is None else record.failure.kind
        limits.refused = limits.refused or failed in _REFUSALS
        if not record.started:
            return
        limits.latencies.ended(self._state.now.boot_ms)
        if times.started_ms is None or times.finished_ms is None:
            return
        if own is not None and own.freed_ms is not None:
            limits.latencies.had_gap(max(0, times.started_ms - own.freed_ms))
        limits.freed.append(times.finished_ms)
        if record.status is Status.SUCCEEDED:
            self._took(outcome, limits, times.started_ms, times.finished_ms)

    def forget(self, boot: str) -> None:
        """The boot is dead, or had lost touch."""
        self._state.limits.pop(boot, None)

    def is_late(self, held: HeldAttempt, limits: BackendLimits) -> bool:
        """Whether it has no first token although others have had theirs after half of the time."""
        tracked = self._state.tracked.get(held.id)
        if tracked is None or not tracked.record.stream or held.tokens or not held.running:
            return False
        waits_ms = self._state.now.boot_ms - held.since_ms
        return limits.latencies.is_late(
            tracked.record.prompt_tokens, waits_ms - _LATE_MS, self._state.now.boot_ms
        )

    def figures(self) -> tuple[BackendFigures, ...]:
        """For an operator: each live worker's."""
        live = self._state.workers.live.values()
        return tuple(self._figures_of(worker) for worker in live)

    def _holds_besides(self, report: Report) -> None:
        """What it holds of tiers that are no longer in the policy takes its room until a report lacks it."""
        state, limits = self._state, self._state.limits.get(report.boot)
        if limits is not None:
            for ended in state.held.besides(report.boot):
                limits.loads.drop(ended.id)
        besides = (each for each in report.held if state.partitions.of(each.origin) is None)
        state.held.holds_besides(report.boot, tuple(besides))

    def _limits_of(self, report: Report) -> BackendLimits:
        known = self._state.limits.get(report.boot)
        if known is None:
            held = self._state.held.count_of(report.boot)
            known = BackendLimits.of(report.limit, held, gauged=report.gauges is not None)
            self._state.limits[report.boot] = known
        return known

    def _held_tokens(self, held: list[HeldAttempt], besides: tuple[Held, ...], limits: BackendLimits) -> int:
        """What should be in its cache. Beside a size that is told, only what has its first token: until then a long prompt is
        computed for seconds.
        """
        if limits.gauges is None or limits.gauges.kv_tokens is None:
            return limits.loads.so_far
        there = [self._load_unread(told.before + told.tokens, told.charge) for told in besides if told.tokens]
        there += [self._load_of(each, limits) for each in held if each.tokens]
        return sum(load.so_far for load in there)

    def _took(self, outcome: Outcome, limits: BackendLimits, began_ms: int, ended_ms: int) -> None:
        record, tracked = outcome.record, outcome.tracked
        first_ms = record.times.first_token_ms
        limits.latencies.took(
            whole_ms=max(0, ended_ms - began_ms),
            first_ms=None if first_ms is None else max(0, first_ms - began_ms),
            prompt_tokens=record.usage.prompt_tokens
            if tracked is None
            else tracked.record.prompt_tokens + record.before,
            answer_tokens=record.usage.completion_tokens,
            boot_ms=self._state.now.boot_ms,
        )

    def _load_when_new(self, tracked: Tracked) -> Load:
        return self._load(tracked, self._state.said(tracked.id))

    def _load_of(self, held: HeldAttempt, limits: BackendLimits) -> Load:
        """As far as it is told; an answer that isn't streamed is taken to be as far as others are after so long."""
        tracked = self._state.tracked.get(held.id)
        if tracked is None:
            return self._load_unread(held.said + held.tokens, held.charge)
        tokens, token_us = held.tokens, limits.latencies.token_us
        if not tokens and held.running and not tracked.record.stream and token_us:
            tokens = (self._state.now.boot_ms - held.since_ms) * 1000 // token_us
        return self._load(tracked, held.said + tokens)

    def _load_unread(self, said: int, charge: int) -> Load:
        """Of one whose request isn't read: no more was charged for its prompt than this."""
        return Load(said + charge // max(1, self._state.setting.pool_policy.cost.prompt), 0)

    def _load(self, tracked: Tracked, tokens: int) -> Load:
        record, length = tracked.record, self._estimating.length_of(tracked.record)
        choices, cap = max(1, record.choices), cap_of(record)
        if cap is not None:
            tokens = min(tokens, cap * choices)
        left = left_of(tokens // choices, length.mean, length.most, cap)
        return Load(record.prompt_tokens + tokens, left * choices)

    def _figures_of(self, worker: Worker) -> BackendFigures:
        limits, held = self._state.limits.get(worker.boot), self._state.held.count_of(worker.boot)
        ceiling, paced = worker.report.limit, backend_pacing.is_closed(self._state, worker)
        if limits is None:
            binds = what_binds(held=held, limit=ceiling, paced=paced)
            return BackendFigures(worker.name, held, ceiling, binds)
        kv_tokens = limits.kv_tokens
        return BackendFigures(
            worker=worker.name,
            held=held,
            limit=min(ceiling, limits.limit),
            binds=what_binds(
                held=held, limit=ceiling, learned=limits.limit, kept_back=limits.kept_back, paced=paced
            ),
            theta_percent=None if kv_tokens is None else limits.theta.percent,
            forecast_tokens=None if kv_tokens is None else limits.loads.peak,
            cache_tokens=kv_tokens,
        )
