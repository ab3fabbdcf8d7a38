"""Must the owner of a pool begin anew for another policy, or may it go on with it? Asked by pool_loop.

Invariant: what decides which logs an owner reads, and which tiers its counters know, changes only where an owner begins: it
gives the pool up and takes it over again, which repeats and loses nothing, as no change of owner does.
"""

from headrace.contracts.policy import Policy


def must_begin_anew(old: Policy, new: Policy) -> bool:
    """With other tiers it reads other logs; with other pools beside it, what their owners say, for its fallbacks."""
    return set(old.tiers) != set(new.tiers) or (len(old.pools) > 1) != (len(new.pools) > 1)
