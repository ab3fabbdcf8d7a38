"""Whom does a committed result concern, and what are they told? Asked by what_to_commit for each row it inserts.

Two messages: the `Final` for the gateway that accepted the request, and a CloudEvent for everybody else (CloudEvents 1.0,
Kafka binding, binary mode). Invariant: an event holds no word of the prompt or the answer, and its id is the same however
often it is sent.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from headrace.contracts.codec import HEADER, encode
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.replies import Final
from headrace.result_delivery.decisions.is_it_a_result import TerminalRecord
from headrace.result_delivery.decisions.why_refused import Headers

MAX_FINAL_BYTES = 1024 * 1024
"""A larger body isn't sent to who waits: the gateway takes it from SQL."""

EVENT_TYPE = "dev.headrace.request."


@dataclass(frozen=True, slots=True)
class Destinations:
    """Names of the two topics, and how many partitions `replies` has: a gateway beyond them doesn't exist."""

    replies: str
    events: str
    gateways: int


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A message to be sent after the commit; written to the outbox in the same transaction."""

    topic: str
    partition: int
    key: bytes | None
    headers: Headers
    value: bytes


def messages_of(
    outcome: TerminalRecord, *, committed_ms: int, destinations: Destinations
) -> list[OutboxMessage]:
    """The final first, since somebody may be waiting for it; then the event."""
    messages = [_event(outcome, committed_ms, destinations.events)]
    if outcome.record.gateway < destinations.gateways:
        messages.insert(0, _final(outcome, destinations.replies))
    return messages


def _final(outcome: TerminalRecord, topic: str) -> OutboxMessage:
    record = outcome.record
    carried = record.waits and record.payload.inline and len(outcome.body) <= MAX_FINAL_BYTES
    final = Final(
        id=record.id,
        attempt=record.attempt,
        status=record.status,
        http_status=record.http_status,
        payload=record.payload,
        stored=not carried,
        partial=record.partial,
        failure=record.failure,
        usage=record.usage,
        model=record.model,
    )
    headers = ((HEADER, encode(final)), *outcome.trace)
    return OutboxMessage(topic, record.gateway, None, headers, outcome.body if carried else b"")


def _event(outcome: TerminalRecord, committed_ms: int, topic: str) -> OutboxMessage:
    record, tenant = outcome.record, outcome.record.tenant.encode()
    at_ms = record.times.finished_ms or committed_ms
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": f"{record.id}-{record.status.value}",
        "ce_type": EVENT_TYPE + record.status.value,
        "ce_source": f"/headrace/{record.pool}",
        "ce_subject": record.id,
        "ce_time": rfc3339(at_ms),
        "ce_partitionkey": record.tenant,
        "content-type": "application/json",
    }
    headers = (*((name, text.encode()) for name, text in attributes.items()), *outcome.trace)
    return OutboxMessage(topic, record.partition, tenant, headers, _event_data(record, committed_ms))


def _event_data(record: ResultRecord, committed_ms: int) -> bytes:
    data = {
        "id": record.id,
        "tenant": record.tenant,
        "pool": record.pool,
        "tier": record.tier,
        "model": record.model,
        "status": record.status,
        "http_status": record.http_status,
        "partial": record.partial,
        "attempts": record.attempts,
        "failure": record.failure.kind if record.failure else None,
        "usage": {
            "prompt_tokens": record.usage.prompt_tokens,
            "cached_tokens": record.usage.cached_tokens,
            "completion_tokens": record.usage.completion_tokens,
            "estimated": record.usage.estimated,
        },
        "times": {
            "accepted": rfc3339(record.accepted_ms),
            "dispatched": _optional(record.times.dispatched_ms),
            "started": _optional(record.times.started_ms),
            "first_token": _optional(record.times.first_token_ms),
            "finished": _optional(record.times.finished_ms),
            "committed": rfc3339(committed_ms),
        },
        "link": f"/v1/requests/{record.id}/result",
    }
    return msgspec.json.encode(data)


def rfc3339(at_ms: int) -> str:
    """Unix ms as RFC 3339 in UTC with milliseconds."""
    whole, rest = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(whole, UTC).isoformat()[:19]}.{rest:03d}Z"


def _optional(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms)
