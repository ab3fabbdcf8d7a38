"""Whether a request may join its queue, and when to come back otherwise. Called once its pool and tier are known.

Invariant: nothing that its tenant's share alone serves in time is refused, nor anything while nobody says how the queue
stands: the owner's word may be missing or old, and then the log takes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from headrace.contracts.observations import QueueState, TenantQueue
from headrace.ingest.refusal import Limit, Refusal

_LONGEST_SECONDS, _LONGEST_ON_OPENAI = 600, 60
"""OpenAI's clients ignore a Retry-After of more than a minute or two."""
_NO_RATE_SECONDS = 30
"""Nothing was settled lately: by then there is a new rate, or still none."""
_JITTER, _LEAST_JITTER = 0.4, 0.8


@dataclass(frozen=True, slots=True)
class Full:
    """A queue that holds more than may wait; all in service units, the rate those per 1,000 s."""

    what: str
    backlog: int
    requests: int
    may_wait: int
    served_milli: int

    @property
    def next_cost(self) -> int:
        """c: what one more request costs, taken for as much as those that wait."""
        return ceil(self.backlog / max(1, self.requests))

    @property
    def over(self) -> int:
        """B + c - H: how far one more would be over."""
        return self.backlog + self.next_cost - self.may_wait


def may_queue(told: QueueState | None, tenant: str, *, waits: bool, random: Callable[[], float]) -> None:
    """Raises Refusal: 429 when the tenant's own queue is full, 503 when the pool is. `waits`: on OpenAI's routes.

    `random` gives numbers in [0, 1).
    """
    mine = None if told is None else next((each for each in told.tenants if each.tenant == tenant), None)
    if told is None or mine is None:
        return
    if mine.backlog > mine.may_wait:
        full = Full("tenant_queue", mine.backlog, mine.depth, mine.may_wait, mine.served_milli)
        raise _refusal(429, full, _your_queue(told, full), waits=waits, random=random)
    if not told.accepting and told.may_wait is not None and mine.backlog > mine.fair_share:
        full = Full("pool_queue", told.backlog, told.depth, told.may_wait, told.served_milli)
        raise _refusal(503, full, _pool(told, mine, full), waits=waits, random=random)


def seconds_to_wait(full: Full) -> float:
    """R = (B + c - H) / X."""
    return full.over * 1_000 / full.served_milli if full.served_milli > 0 else _NO_RATE_SECONDS


def _refusal(status: int, full: Full, sentence: str, *, waits: bool, random: Callable[[], float]) -> Refusal:
    longest, wait = _LONGEST_ON_OPENAI if waits else _LONGEST_SECONDS, seconds_to_wait(full)
    jittered = min(max(wait, 1), longest) * (_LEAST_JITTER + _JITTER * random())
    return Refusal(
        status,
        "queue_full" if status == 429 else "pool_full",
        sentence,
        retry_after=min(max(ceil(jittered), 1), longest),
        may_retry=False if wait > longest else None,
        limit=Limit(name=full.what, value=full.may_wait, over=full.over),
    )


def _your_queue(told: QueueState, full: Full) -> str:
    return (
        f"Your queue of tier {told.tier} in pool {told.pool} is full: {full.requests} requests of {full.backlog} service "
        f"units wait there, and {full.may_wait} are what is served for you in time; one more would be {full.over} over."
    )


def _pool(told: QueueState, mine: TenantQueue, full: Full) -> str:
    return (
        f"The pool {told.pool} is full in tier {told.tier}: {full.backlog} service units wait there, and {full.may_wait} are "
        f"what it serves in time; one more would be {full.over} over. You have {mine.backlog}, and your share of that is "
        f"{mine.fair_share}."
    )
