"""What is noted of an accepted request and of a finished attempt: rows of `requests` and `ledger`. Called by what_to_commit.

Invariant: no payload, no prompt, no answer; numbers as the record has them.
"""

from typing import TypedDict

from headrace.result_delivery.decisions.is_it_a_request import Accepted
from headrace.result_delivery.decisions.is_it_an_attempt import Attempted


class RequestRow(TypedDict):
    """One row of the table `requests`: what was accepted, when (Unix ms), and where it stands in the log. `hop`: through how
    many other pools it came; the row of the greatest counts.
    """

    id: str
    tenant: str
    pool: str
    tier: str
    model: str
    route: str
    stream: bool
    accepted_ms: int
    origin_topic: str
    origin_partition: int
    origin_offset: int
    hop: int


class LedgerRow(TypedDict):
    """One row of the table `ledger`: a finished attempt. `attempts` counts as people do; instants are Unix ms."""

    id: str
    attempt_epoch: int
    attempt_sequence: int
    attempts: int
    tenant: str
    tier: str
    pool: str
    model: str | None
    verdict: str
    status: str | None
    failure_kind: str | None
    started: bool
    charge: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    usage_estimated: bool
    dispatched_ms: int | None
    started_ms: int | None
    first_token_ms: int | None
    finished_ms: int | None
    worker: str | None
    boot: str | None
    committed_ms: int


def request_row(accepted: Accepted) -> RequestRow:
    """What is noted of an accepted request."""
    record, origin = accepted.record, accepted.origin
    return RequestRow(
        id=record.id,
        tenant=record.tenant,
        pool=record.pool,
        tier=record.tier,
        model=record.model,
        route=record.route,
        stream=record.stream,
        accepted_ms=record.accepted_ms,
        origin_topic=origin.topic,
        origin_partition=origin.partition,
        origin_offset=origin.offset,
        hop=record.hop,
    )


def ledger_row(attempted: Attempted, committed_ms: int) -> LedgerRow:
    """What is booked of a finished attempt."""
    record, usage, times = attempted.record, attempted.record.usage, attempted.record.times
    return LedgerRow(
        id=record.id,
        attempt_epoch=record.attempt.epoch,
        attempt_sequence=record.attempt.sequence,
        attempts=record.attempts,
        tenant=record.tenant,
        tier=record.tier,
        pool=attempted.pool,
        model=record.model,
        verdict=record.verdict.value,
        status=None if record.status is None else record.status.value,
        failure_kind=None if record.failure is None else record.failure.kind.value,
        started=record.started,
        charge=record.charge,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        usage_estimated=usage.estimated,
        dispatched_ms=times.dispatched_ms,
        started_ms=times.started_ms,
        first_token_ms=times.first_token_ms,
        finished_ms=times.finished_ms,
        worker=record.worker,
        boot=record.boot,
        committed_ms=committed_ms,
    )
