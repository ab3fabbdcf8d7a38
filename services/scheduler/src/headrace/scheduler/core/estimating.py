"""What is expected of a request, learnt from what came of others. Called by core.dispatching and core.attempt_log.

Invariant: only answers that came to their own end teach how long answers are, and those that were stopped for good how long
they are at least; what is measured of a speed forgets itself.
"""

from msgspec.structs import replace

from headrace.contracts.explanations import LengthFrom
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.requests import RequestRecord
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_cost import (
    Length,
    cap_of,
    expected_cost,
    expected_tokens,
    is_told,
    rest_of,
    spent_cost,
)
from headrace.scheduler.decisions.how_much_is_cached import cached_of
from headrace.scheduler.decisions.is_it_too_late import Takes
from headrace.scheduler.decisions.which_context_was_told import context_told
from headrace.scheduler.decisions.whose_answers_are_alike import alike
from headrace.scheduler.state.cached_shares import CachedShares

_TEACH = (Status.SUCCEEDED, Status.EXPIRED, Status.CANCELLED)


class Estimating:
    """Expectations."""

    def __init__(self, state: PoolState) -> None:
        self._state = state
        self._cached = CachedShares()
        self.told_context: int | None = None
        """The most tokens that prompt and answer may have, as a backend that refused one said last."""

    def length_of(self, record: RequestRecord) -> Length:
        """How long each choice of its answer is expected to be."""
        return self._state.lengths.of(alike(record))

    def source_of(self, record: RequestRecord) -> tuple[LengthFrom, int]:
        """Where that is known from, and from how many answers; the caller's cap, where it is below that."""
        cap, (source, answers) = cap_of(record), self._state.lengths.source_of(alike(record))
        binds = cap is not None and cap < self.length_of(record).mean
        return (LengthFrom.MAX_TOKENS if binds else source), answers

    def cached_of(self, record: RequestRecord, believed: int | None = None) -> int:
        """The tokens of its prompt that it is expected to find in a cache: where so many are believed to be there; None:
        wherever it will go.
        """
        known = self._cached.of(record.tenant, record.model)
        if known is None:
            return 0
        prompt = record.prompt_tokens
        if believed is None:
            return cached_of(prompt, prompt, known.all_of_them)
        return cached_of(prompt, believed, known.warm) if believed else cached_of(prompt, prompt, known.cold)

    def charge_of(self, record: RequestRecord, cached: int | None = None) -> int:
        """What it is charged when it is dispatched now; where it goes on from a text, for the rest alone. `cached`: so many
        tokens of its prompt are expected in the cache where it goes; None: nobody knows where that will be.
        """
        cached = self.cached_of(record) if cached is None else cached
        weights, said = self._state.setting.pool_policy.cost, self._state.said(record.id)
        if said:
            left = rest_of(self.length_of(record), said, cap_of(record)).mean
            prompt = replace(record, prompt_tokens=record.prompt_tokens + said)
            return expected_cost(prompt, left, weights, cached=cached)
        return expected_cost(record, self._state.lengths.mean_of(alike(record)), weights, cached=cached)

    def tokens_of(self, record: RequestRecord) -> int:
        """The tokens that it is expected to take, as ceilings count them."""
        return expected_tokens(record, self.length_of(record))

    def spent(self, outcome: Outcome) -> int:
        """What an attempt that was begun has spent; where nobody said, what it was charged."""
        record, own = outcome.record, outcome.own
        if own is not None and record.status is Status.SUCCEEDED and not is_told(record.usage):
            return own.charge
        return spent_cost(record.usage, self._state.setting.pool_policy.cost)

    def learn(self, outcome: Outcome) -> None:
        """From an attempt's end."""
        record, tracked = outcome.record, outcome.tracked
        failure = record.failure
        if failure is not None and failure.kind is FailureKind.CONTEXT_LENGTH_EXCEEDED:
            self.told_context = context_told(failure.message) or self.told_context
        if tracked is None or record.status not in _TEACH or not is_told(record.usage):
            return
        tokens = (record.before + record.usage.completion_tokens) // max(1, tracked.record.choices)
        cut_off = record.status is not Status.SUCCEEDED
        if not cut_off:
            self._learn_cached(outcome, tracked.record)
        if tokens or not cut_off:
            self._state.lengths.learn(alike(tracked.record), tokens, cut_off=cut_off)

    def _learn_cached(self, outcome: Outcome, request: RequestRecord) -> None:
        """Of one that ended well: of others an engine often says nothing."""
        own, usage = outcome.own, outcome.record.usage
        expected = None if own is None else own.expected
        self._cached.learn(
            request.tenant,
            request.model,
            prompt=usage.prompt_tokens,
            believed=0 if expected is None else expected.counted,
            cached=min(usage.cached_tokens, usage.prompt_tokens),
        )

    def measure(self, outcome: Outcome) -> None:
        """How fast the pool is, from all attempts that made tokens, the cut off ones too: else only the quick would count."""
        tracked, times, usage = outcome.tracked, outcome.record.times, outcome.record.usage
        if times.started_ms is None or times.finished_ms is None or not is_told(usage):
            return
        first_ms = None if times.first_token_ms is None else times.first_token_ms - times.started_ms
        whole_ms = times.finished_ms - times.started_ms
        if whole_ms < 0 or not 0 <= (first_ms or 0) <= whole_ms:
            return  # a clock was set meanwhile
        self._state.speeds.took(
            prompt_tokens=max(0, usage.prompt_tokens - usage.cached_tokens),
            first_ms=first_ms,
            whole_ms=whole_ms,
            answer_tokens=usage.completion_tokens
            // (1 if tracked is None else max(1, tracked.record.choices)),
            boot_ms=self._state.now.boot_ms,
        )

    def time_of(self, record: RequestRecord) -> Takes | None:
        """How long it would take from now on; None: nobody knows."""
        speed = self._state.speeds.now(self._state.now.boot_ms)
        if speed is None:
            return None
        said = self._state.said(record.id)
        most = rest_of(self.length_of(record), said, cap_of(record)).most
        prompt = record.prompt_tokens + said
        return Takes(speed.takes_ms(prompt, 1), speed.takes_ms(prompt, most))
