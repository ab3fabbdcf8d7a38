"""What the core counts. Counted through PoolState.count; observing says which metric each is.

Invariant: a closed set, so that a name can't be mistyped; the values are the names that dashboards and alarms know.
"""

from enum import StrEnum

from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict


class Counted(StrEnum):
    """One counter each: `attempts_` by what an attempt came to, `ended_` by how the owner itself ended a request."""

    ATTEMPTS_DONE = "attempts_done"
    ATTEMPTS_RETRY_AT = "attempts_retry_at"
    ATTEMPTS_DEAD = "attempts_dead"
    ATTEMPTS_LOST = "attempts_lost"
    ATTEMPTS_WORKER_DIED = "attempts_worker_died"
    ENDED_FAILED = "ended_failed"
    ENDED_EXPIRED = "ended_expired"
    ENDED_CANCELLED = "ended_cancelled"
    ENDED_DEAD_LETTERED = "ended_dead_lettered"
    BURIED_RECORDS = "buried_records"
    LEFT_TO_DELIVERY = "left_to_delivery"
    RELEASED = "released"
    WARM = "warm"
    WARM_MISSED = "warm_missed"
    PASSED = "passed"
    RETRIES_REFUSED = "retries_refused"
    OVERSTATED = "overstated"
    DUPLICATES = "duplicates"
    GAPS = "gaps"
    SPILLED = "spilled"
    READ_AGAIN = "read_again"
    PREEMPTED = "preempted"
    TAKEN_BACK = "taken_back"
    CONTINUED = "continued"
    TEXTS_GONE = "texts_gone"
    REROUTED = "rerouted"
    TRIALS = "trials"
    DEATHS = "deaths"
    WORKERS_DIED = "workers_died"
    WORKERS_LEFT = "workers_left"
    WORKERS_OF_ONE_NAME = "workers_of_one_name"
    TRIMMED_RECORDS = "trimmed_records"


OF_VERDICT = {verdict: Counted(f"attempts_{verdict}") for verdict in Verdict}
OF_END = {
    status: Counted(f"ended_{status}")
    for status in (Status.FAILED, Status.EXPIRED, Status.CANCELLED, Status.DEAD_LETTERED)
}
