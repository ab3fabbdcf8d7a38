"""Whether a standby may claim the pool. Called each turn while standing by.

Invariant: an owner that wrote a checkpoint lately isn't disturbed; one that said `released` is followed at once.
"""

from datetime import timedelta


def silence_to_wait(rank: int, *, vacant: bool, silent: timedelta, rank_step: timedelta) -> timedelta:
    """How long the state log must not have grown before the standby of this rank (from 0) claims.

    `vacant`: nobody has owned the pool yet, or the last owner released it. Ranks keep standbys from claiming all at once.
    """
    return rank_step * rank if vacant else silent + rank_step * rank


def may_take_over(*, silence: timedelta, needed: timedelta, vacant: bool, confirmed: bool) -> bool:
    """`confirmed`: the broker itself said, after the silence, that the log hasn't grown; a vacant pool needs no such word."""
    return silence >= needed and (vacant or confirmed)
