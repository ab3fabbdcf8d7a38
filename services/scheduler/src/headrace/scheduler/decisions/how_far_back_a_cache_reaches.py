"""How long ago a backend may have been sent a prompt's beginning that its cache still has. Called by state.cached_prefixes.

A time is counted in tokens: those of the prompts that the backend was sent since. Invariant: learnt from what engines find
alone, and never for good: a cache that was emptied once, or has become larger, is known again after a few answers.
"""

_PART = 8
"""By so much of the way it moves towards what contradicts it."""


def reaches(reach: int | None, age: int) -> bool:
    """Whether what was used so long ago is probably there. `reach` None: nothing was ever gone."""
    return reach is None or age <= reach


def reach_after(reach: int | None, age: int, *, found: bool) -> int | None:
    """The reach, once an engine has found, or had dropped, what it had used so long ago."""
    if reaches(reach, age) == found:
        return reach
    if reach is None:
        return age - 1
    step = -(-abs(age - reach) // _PART)
    return reach + step if found else reach - max(1, step)
