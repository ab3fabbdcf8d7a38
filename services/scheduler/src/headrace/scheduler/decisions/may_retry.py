"""Whether a tenant may have one more retry now. Called by the core when another attempt would follow a failed one.

Invariant: of a tenant's attempts in the last minute, at most a share are retries, besides a number that is always allowed.
So a backend that fails everything is asked a little more often, and not `max_attempts` times as often. (A retry budget, as
Finagle's and Envoy's; gRPC throttles likewise.) Outages and deaths aren't counted: they use no budget up.
"""

from datetime import timedelta

from headrace.contracts.failures import FailureKind, rule_of

WINDOW = timedelta(minutes=1)


def takes_budget(kind: FailureKind | None, *, started: bool) -> bool:
    """Whether a retry after this failure counts: the backend was there, and failed."""
    if kind is None or not started:
        return False
    rule = rule_of(kind)
    return rule.retryable and rule.uses_attempt and not rule.suspect


def may_retry(*, attempts: int, retries: int, percent: int, minimum: int) -> bool:
    """`attempts`, `retries`: the tenant's in the last minute; `percent`, `minimum`: its policy."""
    return retries < minimum + attempts * percent // 100
