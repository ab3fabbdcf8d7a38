"""Token counts as a backend reports them, as our Usage. Called for plain answers and for chunks.

Invariant: a lying or missing count becomes 0, never a record that nobody can decode.
"""

from headrace.contracts.values import MOST_TOKENS, Usage


def usage_from(reported: object) -> Usage | None:
    """OpenAI's `usage` object; None when there is none."""
    if not isinstance(reported, dict):
        return None
    details = reported.get("prompt_tokens_details")
    return Usage(
        prompt_tokens=_count(reported.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
        completion_tokens=_count(reported.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else 0
