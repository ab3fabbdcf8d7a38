"""How much of a prompt the cache where it goes probably has, by what engines told of others of its tenant and model.

Called by core.estimating. A hint alone lowers no charge: what is believed to be in a cache counts as far as engines have
found such there. Invariant: tokens, integers; before engines have told of NEEDED attempts nothing counts as cached, and of
one prompt never more than it has, nor more than was found in all that are remembered together.
"""

from typing import NamedTuple

NEEDED = 8
"""Attempts from which on a share is taken for true."""


class Share(NamedTuple):
    """What engines found in their caches, over the latest attempts that ended well: `cached` tokens of so many."""

    attempts: int = 0
    tokens: int = 0
    cached: int = 0


class Shares(NamedTuple):
    """Of one tenant and model. `warm`: of what was believed to be there, where anything was; `cold`: of prompts of which
    nothing was; `all_of_them`: of prompts, wherever they went.
    """

    warm: Share
    cold: Share
    all_of_them: Share


def cached_of(prompt: int, tokens: int, share: Share) -> int:
    """Of a prompt, of which so many tokens are what the share is of."""
    if share.attempts < NEEDED or not share.tokens:
        return 0
    return min(prompt, tokens * share.cached // share.tokens, share.cached)
