"""Whether a backend that has no gauges is overloaded, by how long its first tokens take. Called by state.latencies.

Invariant: prompts are compared with prompts of about the same size.
"""

from collections.abc import Sequence

CLEARLY_MS = 250
"""By less than that first tokens vary in an engine where nobody waits: prompts are computed in turns."""
FEWEST = 8
"""First tokens of one size without which nothing is said."""


def size_of(prompt_tokens: int) -> int:
    """The bucket of a prompt's size: a doubling each."""
    return prompt_tokens.bit_length()


def percentile(values: Sequence[int], percent: int) -> int | None:
    """The value below which so many percent lie; None for no values."""
    return sorted(values)[(len(values) - 1) * percent // 100] if values else None


def have_slowed(usual_ms: int | None, lately_ms: Sequence[int]) -> bool:
    """Whether half of the latest took more than twice the 10th percentile of ten minutes (`usual_ms`), and clearly longer."""
    median = percentile(lately_ms, 50)
    return (
        usual_ms is not None
        and median is not None
        and len(lately_ms) >= FEWEST
        and median > max(2 * usual_ms, usual_ms + CLEARLY_MS)
    )
