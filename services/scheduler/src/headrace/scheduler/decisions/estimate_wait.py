"""How long a queued request will wait, as far as the last half minute tells. Called for answers to queries."""


def estimated_wait_ms(ahead: int, rate_milli: int) -> int | None:
    """Milliseconds until `ahead` requests before this one have been completed, at `rate_milli` per 1,000 s.

    None when nothing was completed lately: no estimate is better than a wrong one.
    """
    if rate_milli <= 0:
        return None
    return (ahead + 1) * 1_000_000 // rate_milli


def rate_milli_of(completed: int, over_ms: int) -> int:
    """Completions per 1,000 s from a count over a period of milliseconds; 0 for an empty period."""
    return completed * 1_000_000 // over_ms if over_ms > 0 else 0
