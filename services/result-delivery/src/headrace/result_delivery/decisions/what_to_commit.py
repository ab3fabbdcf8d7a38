"""What does a batch of records commit? Asked by committing inside the SQL transaction that has moved the positions.

Invariant: the first terminal record of a request in log order is its result, over batches and within one; every later one
is suppressed and counted, and tells nobody anything. An attempt is booked once, a request noted once, each as it stands
first in the log.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import TypedDict

from headrace.contracts.barriers import Barrier
from headrace.contracts.failures import FailureKind
from headrace.contracts.outcomes import ResultRecord
from headrace.result_delivery.decisions.is_it_a_request import Accepted
from headrace.result_delivery.decisions.is_it_a_result import TerminalRecord
from headrace.result_delivery.decisions.is_it_an_attempt import Attempted
from headrace.result_delivery.decisions.what_to_book import LedgerRow, RequestRow, ledger_row, request_row
from headrace.result_delivery.decisions.what_to_tell import Destinations, OutboxMessage, messages_of
from headrace.result_delivery.decisions.why_refused import LeftToOwner


class ResultRow(TypedDict):
    """One row of the table `results`; instants are Unix ms. `body` is as it was in the log, sealed if it was sealed."""

    id: str
    tenant: str
    pool: str
    tier: str
    status: str
    http_status: int
    model: str
    route: str
    stream: bool
    partial: bool
    attempts: int
    attempt_epoch: int
    attempt_sequence: int
    gateway: int
    worker: str | None
    failure_kind: str | None
    failure_message: str | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    usage_estimated: bool
    accepted_ms: int
    dispatched_ms: int | None
    started_ms: int | None
    first_token_ms: int | None
    finished_ms: int | None
    committed_ms: int
    content_type: str
    encoding: str
    reference: str | None
    body: bytes


Found = TerminalRecord | Accepted | Attempted | LeftToOwner | Barrier
"""What a record may hold, with what is only counted, and what is only passed over."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Rows to insert, what to tell once they are committed, the ids of the results that came too late, and why records are
    left to the owners of their pools.

    Rows of `ledger` and `requests` may be there already: whoever inserts them leaves those as they are, but for a request
    that came through more pools since.
    """

    rows: list[ResultRow] = field(default_factory=list)
    outbox: list[OutboxMessage] = field(default_factory=list)
    suppressed: list[str] = field(default_factory=list)
    ledger: list[LedgerRow] = field(default_factory=list)
    requests: list[RequestRow] = field(default_factory=list)
    left: list[FailureKind] = field(default_factory=list)


def what_to_commit(
    batch: Iterable[Found], known: Set[str], *, committed_ms: int, destinations: Destinations
) -> Commit:
    """The rows of what is seen for the first time. `known`: the ids that have a result already.

    `batch` is in log order within each partition. All that a request ever has stands in one partition of each topic.
    """
    commit, seen = Commit(), set(known)
    booked: set[tuple[str, str, int, int]] = set()
    noted: set[tuple[str, int]] = set()
    for found in batch:
        match found:
            case TerminalRecord():
                _result(commit, found, seen, committed_ms, destinations)
            case Attempted(record, pool) if (pool, record.id, *record.attempt) not in booked:
                booked.add((pool, record.id, *record.attempt))
                commit.ledger.append(ledger_row(found, committed_ms))
            case LeftToOwner(reason):
                commit.left.append(reason)
            case Accepted(record) if (record.id, record.hop) not in noted:
                noted.add((record.id, record.hop))
                commit.requests.append(request_row(found))
    return commit


def _result(
    commit: Commit, outcome: TerminalRecord, seen: set[str], committed_ms: int, destinations: Destinations
) -> None:
    if outcome.record.id in seen:
        commit.suppressed.append(outcome.record.id)
        return
    seen.add(outcome.record.id)
    commit.rows.append(_row(outcome.record, outcome.body, committed_ms))
    commit.outbox.extend(messages_of(outcome, committed_ms=committed_ms, destinations=destinations))


def _row(record: ResultRecord, body: bytes, committed_ms: int) -> ResultRow:
    usage, times, failure = record.usage, record.times, record.failure
    return ResultRow(
        id=record.id,
        tenant=record.tenant,
        pool=record.pool,
        tier=record.tier,
        status=record.status.value,
        http_status=record.http_status,
        model=record.model,
        route=record.route,
        stream=record.stream,
        partial=record.partial,
        attempts=record.attempts,
        attempt_epoch=record.attempt.epoch,
        attempt_sequence=record.attempt.sequence,
        gateway=record.gateway,
        worker=record.worker,
        failure_kind=failure.kind.value if failure else None,
        failure_message=failure.message.replace("\0", "\ufffd") if failure else None,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        usage_estimated=usage.estimated,
        accepted_ms=record.accepted_ms,
        dispatched_ms=times.dispatched_ms,
        started_ms=times.started_ms,
        first_token_ms=times.first_token_ms,
        finished_ms=times.finished_ms,
        committed_ms=committed_ms,
        content_type=record.payload.content_type,
        encoding=record.payload.encoding.value,
        reference=record.payload.reference,
        body=body,
    )
