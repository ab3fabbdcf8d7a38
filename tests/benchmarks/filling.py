"""Writes a backlog straight into the log, as ingest would. Called by benchmarks of what an owner does with it."""

from collections import deque
from collections.abc import Callable, Sequence

from confluent_kafka import Producer

from headrace.bus.messages import message_of
from headrace.contracts.durations import ms
from headrace.contracts.ids import mint_request_id
from headrace.contracts.partitions import partition_of
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Payload
from tests.support.scheduler.live import Pool
from tests.support.scheduler.pure import POOL

TENANTS = [f"tenant-{number}" for number in range(64)]
_FRAME = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}'
_QUEUED, _EACH = 100_000, 1_000
_LATEST = 200_000


def fill(
    pool: Pool,
    bootstrap: str,
    count: int,
    *,
    tier: str,
    size: int = 1_024,
    tenants: Sequence[str] = TENANTS,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[RequestRecord]:
    """So many requests with bodies of `size` bytes; they are acknowledged when this returns. The last 200,000 of them.

    `meanwhile` is called now and then.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "message.max.bytes": 10_000_000})
    body = _FRAME % (b"x" * (size - len(_FRAME) + 2))
    wall_ms, records = pool.clock.now().wall_ms, deque[RequestRecord](maxlen=_LATEST)
    for number in range(count):
        if not number % _EACH:
            meanwhile()
        record = _record(pool, number, tenants[number % len(tenants)], tier, len(body), wall_ms)
        records.append(record)
        message = message_of(pool.place(TopicKind.REQUESTS, record.partition, tier), record, body)
        while len(producer) >= _QUEUED:
            producer.poll(0.1)
        producer.produce(message.topic, body, partition=message.partition, headers=list(message.headers))
        producer.poll(0)
    producer.flush()
    return list(records)


def _record(pool: Pool, number: int, tenant: str, tier: str, size: int, wall_ms: int) -> RequestRecord:
    partition = partition_of(tenant, pool.policy.topics.tenant_partitions)
    request_id = mint_request_id(
        b"k" * 32, tenant=tenant, pool=POOL, tier=tier, partition=partition, wall_ms=wall_ms,
        random=number.to_bytes(10, "big"),
    )  # fmt: skip
    return RequestRecord(
        id=request_id, tenant=tenant, pool=POOL, tier=tier, partition=partition, model="m",
        route="/v1/chat/completions", accepted_ms=wall_ms, payload=Payload(size=size), gateway=0,
        max_tokens=10, prompt_tokens=200, start_by_ms=wall_ms + ms(pool.policy.tiers[tier].queue_timeout),
    )  # fmt: skip
