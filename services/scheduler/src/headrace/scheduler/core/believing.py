"""Believes of a worker's word what can be true. Called by core.attempt_log, core.reconciling and core.pacing.

Invariant: what is cut is counted, so that an operator hears of a worker that lies.
"""

from msgspec.structs import replace

from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.outcome import Outcome
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_cost import most_tokens
from headrace.scheduler.decisions.what_can_it_have_spent import (
    ANSWER_BESIDES,
    Asked,
    Most,
    Told,
    cut_to,
    is_small,
    most_of,
)
from headrace.scheduler.state.held import HeldAttempt
from headrace.scheduler.state.tracked import Tracked


def believed(state: PoolState, outcome: Outcome) -> Outcome:
    """With no more spent than the attempt can have."""
    usage, own = outcome.record.usage, outcome.own
    if is_small(usage):
        return outcome
    cut = cut_to(usage, _most(state, outcome.tracked, own, said=outcome.record.before))
    if (cut.prompt_tokens, cut.completion_tokens) == (usage.prompt_tokens, usage.completion_tokens):
        return outcome
    state.count(Counted.OVERSTATED)
    return Outcome(replace(outcome.record, usage=cut), outcome.tracked, outcome.held, outcome.own)


def tokens_so_far(state: PoolState, held: HeldAttempt, told: int) -> int:
    """Of its answer, as a report tells them."""
    if told <= ANSWER_BESIDES:
        return told
    most = _most(state, state.tracked.look(held.id), held, said=held.said).answer
    if told > most:
        state.count(Counted.OVERSTATED)
    return min(told, most)


def tokens_expected(state: PoolState, held: HeldAttempt) -> int:
    """Of one that another owner released: what that expected it to take, as its worker echoes it, or what it has taken by
    now, if that is more. Of a worker that doesn't echo it, what its charge stands for at most.
    """
    told = held.expects or most_tokens(held.charge, state.setting.pool_policy.cost)
    most = _most(state, state.tracked.look(held.id), None, said=held.said)
    return min(max(told, prompt_of(state, held) + held.tokens), sum(most))


def prompt_of(state: PoolState, held: HeldAttempt) -> int:
    """Tokens of its prompt, as they were estimated, and of the text that it goes on from; only those while it isn't read."""
    tracked = state.tracked.look(held.id)
    return held.said + (0 if tracked is None else tracked.record.prompt_tokens)


def _most(state: PoolState, tracked: Tracked | None, own: HeldAttempt | None, *, said: int) -> Most:
    asked = None
    if tracked is not None:
        record = tracked.record
        asked = Asked(
            record.payload.size, record.max_tokens, record.choices, said, record.sequences, record.media
        )
    released = own is not None and own.attempt.epoch == state.epoch
    took_ms = state.now.boot_ms - own.since_ms if own is not None and released else None
    pool = state.setting.pool_policy
    told = Told(pool.context_length, pool.media_tokens, pool.reasoning_tokens)
    return most_of(told, asked, took_ms)
