"""Which ceilings keep a backend below what it takes in a minute? Asked by state.backend_ceilings, where a worker says so.

Invariant: over any ten seconds or longer a backend is given no more requests than its limit allows for that time, so that it
refuses none, whether it counts by the minute or by ten seconds; tokens likewise, but for the last request, which isn't asked
how long it will be. A limit of few requests is kept over any minute.
"""

from headrace.contracts.policy import Spent
from headrace.contracts.reports import PerMinute
from headrace.scheduler.decisions.is_it_over_its_ceiling import Ceiling

_MINUTE_US = 60_000_000
PER_US = _MINUTE_US * 10 // 9
"""Nine tenths of it in a minute: what is left is for one second's worth at once, and for the ways of commands."""


def ceilings_of(per_minute: PerMinute | None) -> list[Ceiling]:
    """None where nothing is told."""
    if per_minute is None:
        return []
    told = ((Spent.REQUESTS, per_minute.requests), (Spent.TOKENS, per_minute.tokens))
    return [Ceiling(spent, most, PER_US, max(1, most // 60)) for spent, most in told if most is not None]
