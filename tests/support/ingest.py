"""One replica of ingest on a bus in memory (or any), and the other side of it played by hand: owner, worker, delivery.

Called by tests/integration/ingest. The API listens on a real port with the real server.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from sqlalchemy import Engine, create_engine

from headrace.bus.memory import MemoryBus
from headrace.bus.memory.async_ports import MemoryAsyncProducer
from headrace.bus.messages import Message, Place, Received, message_of
from headrace.bus.ports import START, AsyncProducer, Bus, BusError, BusUnavailableError
from headrace.bus.topic_check import apply_topics
from headrace.contracts.codec import decode
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.policy import Policy, PoolPolicy, TenantPolicy, hash_key
from headrace.contracts.replies import Answer, Chunk, Final
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind, TopicNames, required_topics
from headrace.contracts.values import Failure, Payload, Usage
from headrace.ingest.settings import IngestSettings
from headrace.ingest.wiring import serve
from headrace.result_delivery.adapters.tables import METADATA, REQUESTS, RESULTS
from headrace.runtime.telemetry import Telemetry

POLICY = Policy(
    pools={"main": PoolPolicy(models={"small": "small", "alias": "backend/name"})},
    tenants={
        "atlas": TenantPolicy(key_sha256=(hash_key("key-atlas"),)),
        "birch": TenantPolicy(key_sha256=(hash_key("key-birch"),), tiers=("standard",)),
    },
)
CHAT: dict[str, Any] = {"model": "small", "messages": [{"role": "user", "content": "Hello"}]}
FIRST = AttemptId(1, 1)
_WAIT = timedelta(milliseconds=100)


class BreakableBus(MemoryBus):
    """The bus in memory; while `error` is set, every send of ingest raises it. `deaf`: a topic that takes nothing."""

    error: BusError | None = None
    deaf: str | None = None

    def async_producer(self, *_: object, **_named: object) -> Any:
        bus = self

        class Producer(MemoryAsyncProducer):
            async def send(self, message: Message) -> int:
                if bus.error is not None:
                    raise bus.error
                if message.topic == bus.deaf:
                    raise BusUnavailableError(f"{bus.deaf} takes nothing")
                return await super().send(message)

        return Producer(self._broker)


class OtherSide:
    """Owner, worker and delivery as a test plays them, and a look into the log."""

    def __init__(self, bus: Bus, prefix: str, database: Engine) -> None:
        self.names, self._bus, self._database = TopicNames(prefix), bus, database
        self._handed_out: set[str] = set()
        self._producer: AsyncProducer = MemoryBus().async_producer("", delivery_timeout=_WAIT)

    async def start(self) -> None:
        self._producer = self._bus.async_producer("other", delivery_timeout=timedelta(seconds=20))
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def records(self, topic: str, partitions: int) -> list[Received]:
        """Everything that stands in a topic."""
        reader = self._bus.async_reader("look")
        await reader.start()
        try:
            places = [Place(topic, number) for number in range(partitions)]
            await reader.assign(dict.fromkeys(places, START))
            ends, found = await reader.ends(places), list[Received]()
            while len(found) < sum(ends.values()):
                found += await reader.read(1000, _WAIT)
            return found
        finally:
            await reader.stop()

    async def all_requests(self) -> list[tuple[RequestRecord, Received]]:
        found = []
        for tier in POLICY.tiers:
            topic = self.names.of(TopicKind.REQUESTS, pool="main", tier=tier)
            found += await self.records(topic, POLICY.topics.tenant_partitions)
        return [(decode(TopicKind.REQUESTS, received.header), received) for received in found]

    async def request(self) -> tuple[RequestRecord, Received]:
        """The next accepted request that wasn't handed out yet, waited for."""
        async with asyncio.timeout(10):
            while True:
                for record, received in await self.all_requests():
                    if record.id not in self._handed_out:
                        self._handed_out.add(record.id)
                        return record, received
                await asyncio.sleep(0.01)

    async def control(self, pool: str = "main") -> list[CancelRequest | Query]:
        topic = self.names.of(TopicKind.CONTROL, pool=pool)
        return [decode(TopicKind.CONTROL, r.header) for r in await self.records(topic, 1)]

    def note(self, request: RequestRecord) -> None:
        """Delivery's word that it was accepted."""
        row = {
            "id": request.id, "tenant": request.tenant, "pool": request.pool, "tier": request.tier,
            "model": request.model, "route": request.route, "stream": request.stream,
            "accepted_ms": request.accepted_ms, "origin_topic": "t", "origin_partition": 0, "origin_offset": 0,
            "hop": request.hop,
        }  # fmt: skip
        with self._database.begin() as connection:
            connection.execute(REQUESTS.insert(), row)

    async def reply(self, gateway: int, record: Chunk | Final | Answer, value: bytes = b"") -> None:
        await self._producer.send(message_of(Place(self.names.of(TopicKind.REPLIES), gateway), record, value))

    async def chunk(
        self,
        to: RequestRecord,
        number: int,
        text: str,
        *,
        so_far: int,
        attempt: AttemptId = FIRST,
        **more: Any,
    ) -> bytes:
        """One live chunk; its raw bytes."""
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": None, **more}
        raw = sse(
            {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        )
        chunk = Chunk(
            id=to.id, attempt=attempt, number=number, characters=so_far, payload=Payload(size=len(raw))
        )
        await self.reply(to.gateway, chunk, raw)
        return raw

    async def finish(
        self,
        to: RequestRecord,
        body: bytes,
        *,
        status: Status = Status.SUCCEEDED,
        http_status: int = 200,
        failure: Failure | None = None,
        partial: bool = False,
        tell: bool = True,
        inline: bool = True,
        attempt: AttemptId = FIRST,
    ) -> None:
        """Delivery's part: the row, then the Final (unless it is to be lost)."""
        self._store(to, body, status, http_status, failure, partial, attempt)
        final = Final(
            id=to.id,
            attempt=attempt,
            status=status,
            http_status=http_status,
            payload=Payload(size=len(body)),
            stored=not inline,
            partial=partial,
            failure=failure,
            usage=Usage(prompt_tokens=3, completion_tokens=2),
            model=to.model,
        )
        if tell:
            await self.reply(to.gateway, final, body if inline else b"")

    def _store(
        self,
        to: RequestRecord,
        body: bytes,
        status: Status,
        http_status: int,
        failure: Failure | None,
        partial: bool,
        attempt: AttemptId,
    ) -> None:
        row = {
            "id": to.id, "tenant": to.tenant, "pool": to.pool, "tier": to.tier, "status": status.value,
            "http_status": http_status, "model": to.model, "route": to.route, "stream": to.stream,
            "partial": partial, "attempts": 1, "attempt_epoch": attempt.epoch,
            "attempt_sequence": attempt.sequence, "gateway": to.gateway,
            "failure_kind": None if failure is None else failure.kind.value,
            "failure_message": None if failure is None else failure.message,
            "prompt_tokens": 3, "cached_tokens": 0, "completion_tokens": 2, "usage_estimated": False,
            "accepted_ms": to.accepted_ms, "started_ms": to.accepted_ms + 5, "finished_ms": to.accepted_ms + 9,
            "committed_ms": to.accepted_ms + 10, "content_type": "application/json", "encoding": "none",
            "body": body,
        }  # fmt: skip
        with self._database.begin() as connection:
            connection.execute(RESULTS.insert(), row)


@dataclass
class Replica:
    """A running ingest: its URL, the other side of its bus, and its telemetry."""

    url: str
    other: OtherSide
    telemetry: Telemetry
    database: Path
    session: aiohttp.ClientSession = field(repr=False)

    def as_tenant(self, tenant: str = "atlas") -> dict[str, str]:
        return {"Authorization": f"Bearer key-{tenant}"}


def sse(document: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def chat_answer(text: str) -> bytes:
    """A stored answer with odd spacing, so that equal bytes mean something."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    whole = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=3)


def create_tables(database: Path) -> Engine:
    engine = create_engine(f"sqlite:///{database}")
    METADATA.create_all(engine)
    return engine


@contextlib.asynccontextmanager
async def running(
    bus: Bus, folder: Path, prefix: str = "headrace.", policy: Policy = POLICY, **settings: Any
) -> AsyncIterator[Replica]:
    """A replica, ready. Fails when it ends by itself or doesn't end when told to."""
    apply_all_topics(bus, prefix, policy)
    database, stop = folder / "results.db", asyncio.Event()
    given = {"id_key": "ab" * 32, "port": 0, "name": "one", "prefix": prefix, "drain": timedelta(seconds=1)}
    chosen = IngestSettings(**{"database": f"sqlite:///{database}", **given, **settings})
    telemetry = Telemetry.create(chosen)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(chosen, bus=bus, policy=policy, telemetry=telemetry, stop=stop, listening=address.set_result)
    )

    def ended_early(task: asyncio.Task[None]) -> None:
        if not address.done():
            address.set_exception(task.exception() or AssertionError("ended before it listened"))

    serving.add_done_callback(ended_early)
    await asyncio.wait_for(asyncio.shield(address), 30)
    engine = create_tables(database)
    other = OtherSide(bus, prefix, engine)
    await other.start()
    try:
        async with aiohttp.ClientSession(address.result()) as session:
            yield Replica(address.result(), other, telemetry, database, session)
    finally:
        await other.stop()
        engine.dispose()
        stop.set()
        async with asyncio.timeout(20):
            await serving


def apply_all_topics(bus: Bus, prefix: str, policy: Policy = POLICY) -> None:
    topics = bus.topics("test")
    counts = policy.topics.counts()
    apply_topics(topics, required_topics(TopicNames(prefix), counts, pools=policy.pools, tiers=policy.tiers))
    topics.close()
