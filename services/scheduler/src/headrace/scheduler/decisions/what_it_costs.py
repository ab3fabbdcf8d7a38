"""What a request is charged at dispatch, and what an attempt really cost. Called by the core.

Invariant: micro service units, integers; a request charges at least 1.
"""

from headrace.contracts.policy import CostWeights, PoolPolicy
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Usage


def expected_cost(record: RequestRecord, pool: PoolPolicy) -> int:
    """The charge at dispatch: the prompt's estimate, all uncached, and min(cap, default) tokens of answer."""
    default = pool.default_max_tokens * max(1, record.choices)
    answer = default if record.max_tokens is None else min(record.max_tokens, default)
    return max(1, record.prompt_tokens * pool.cost.prompt + answer * pool.cost.completion)


def spent_cost(usage: Usage, weights: CostWeights) -> int:
    """What the engine really spent, as it was reported; 0 when it spent nothing."""
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    prompt = (usage.prompt_tokens - cached) * weights.prompt + cached * weights.cached
    return prompt + usage.completion_tokens * weights.completion


def raised_charge(charge: int, tokens: int, prompt_tokens: int, weights: CostWeights) -> int:
    """The charge of a running attempt, raised to what it has spent so far; never lowered before it ends."""
    return max(charge, prompt_tokens * weights.prompt + tokens * weights.completion)
