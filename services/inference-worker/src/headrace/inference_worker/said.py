"""What an answer had said before an attempt, and how the attempt's part and that make one answer. Pure data and arithmetic.

Invariant: over a request's attempts each prompt token and each token of the answer is told to the caller once, whatever the
engines read again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.contracts.values import Usage


@dataclass(frozen=True, slots=True)
class Said:
    """A text, and how many tokens it is."""

    text: str = ""
    tokens: int = 0


NOTHING = Said()


def usage_of_whole(own: Usage, before: int) -> Usage:
    """Of an answer whose last attempt spent `own` and found `before` tokens said: to that attempt they were prompt."""
    prompt = max(0, own.prompt_tokens - before)
    return Usage(
        prompt_tokens=prompt,
        cached_tokens=min(own.cached_tokens, prompt),
        completion_tokens=own.completion_tokens + before,
        estimated=own.estimated,
    )


def reported_of_whole(reported: Mapping[str, Any], before: int) -> dict[str, Any]:
    """The same of OpenAI's `usage` object, its other members as the backend wrote them."""
    whole = dict(reported)
    prompt, answer = reported.get("prompt_tokens"), reported.get("completion_tokens")
    if isinstance(prompt, int) and isinstance(answer, int):
        whole |= {"prompt_tokens": max(0, prompt - before), "completion_tokens": answer + before}
        details = reported.get("prompt_tokens_details")
        if isinstance(details, dict) and isinstance(details.get("cached_tokens"), int):
            cached = min(details["cached_tokens"], whole["prompt_tokens"])
            whole["prompt_tokens_details"] = {**details, "cached_tokens": cached}
    return whole
