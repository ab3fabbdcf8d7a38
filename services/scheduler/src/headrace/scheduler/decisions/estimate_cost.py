"""What a request will cost, and what an attempt did cost. Called by core.estimating and where charges are kept.

Invariant: micro service units, integers; nothing is free: a charge, and what a started attempt settles, is at least 1, so
that requests without a price take turns all the same.
"""

from typing import NamedTuple

from headrace.contracts.policy import CostWeights
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import MOST_TOKENS, Usage
from headrace.scheduler.decisions.how_many_tokens_fit import left_of


class Length(NamedTuple):
    """Tokens of one choice of an answer: the mean, and what 9 of 10 don't exceed."""

    mean: int
    most: int


def cap_of(record: RequestRecord) -> int | None:
    """The caller's cap on one choice of the answer; the record's is over all of them."""
    if record.max_tokens is None or record.choices <= 1:
        return record.max_tokens
    return -(-record.max_tokens // record.choices)


def capped(length: Length, cap: int | None) -> Length:
    """No answer is longer than its caller allows."""
    return length if cap is None else Length(min(length.mean, cap), min(length.most, cap))


def rest_of(length: Length, said: int, cap: int | None) -> Length:
    """How much of an answer is still to come of which `said` tokens are there: whoever has come far goes on for longer."""
    if not said:
        return capped(length, cap)
    mean = left_of(said, length.mean, length.most, cap)
    most = max(mean, length.most - said)
    return Length(mean, most if cap is None else max(mean, min(most, cap - said)))


def expected_cost(record: RequestRecord, mean: int, weights: CostWeights, *, cached: int = 0) -> int:
    """The charge at dispatch: the prompt's estimate, with what is cached of it, and the mean answer, within its cap, in each
    choice.
    """
    cap = cap_of(record)
    answer = (mean if cap is None else min(mean, cap)) * max(1, record.choices)
    return max(1, _prompt_cost(record.prompt_tokens, cached, weights) + answer * weights.completion)


def spent_cost(usage: Usage, weights: CostWeights) -> int:
    """What the engine spent on an attempt that it began, as it was reported."""
    prompt = _prompt_cost(usage.prompt_tokens, usage.cached_tokens, weights)
    return max(1, prompt + usage.completion_tokens * weights.completion)


def expected_tokens(record: RequestRecord, length: Length) -> int:
    """The tokens that it is expected to take, prompt and answer, whatever they cost."""
    return record.prompt_tokens + capped(length, cap_of(record)).mean * max(1, record.choices)


def most_tokens(charge: int, weights: CostWeights) -> int:
    """The tokens that a charge stands for at most: all of the cheapest kind, be it that all of a prompt was expected in a
    cache. 0 where none has a price. A worker's word, so no more than an attempt can have.
    """
    prices = [price for price in (weights.prompt, weights.cached, weights.completion) if price]
    return min(MOST_TOKENS, -(-charge // min(prices))) if prices else 0


def is_told(usage: Usage) -> bool:
    """Whether anybody said what was spent: no attempt that succeeded spent nothing at all."""
    return usage.prompt_tokens + usage.completion_tokens > 0


def raised_charge(
    charge: int, tokens: int, prompt_tokens: int, weights: CostWeights, *, cached: int = 0
) -> int:
    """The charge of a running attempt, raised to what it has spent so far, as far as that is known before the engine says how
    much was `cached`; never lowered before it ends.
    """
    return max(charge, _prompt_cost(prompt_tokens, cached, weights) + tokens * weights.completion)


def _prompt_cost(tokens: int, cached: int, weights: CostWeights) -> int:
    cached = min(cached, tokens)
    return (tokens - cached) * weights.prompt + cached * weights.cached
