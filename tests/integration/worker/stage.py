"""A worker on a bus with a fake engine behind it, and a stand-in for the owner who sends it commands."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import orjson

from headrace.bus.messages import Place, Received, message_of
from headrace.bus.ports import START, AsyncReader, Bus, BusUnavailableError
from headrace.bus.topic_check import apply_topics
from headrace.contracts.codec import decode
from headrace.contracts.commands import Cancel, CancelReason, Command, Run
from headrace.contracts.durations import ms
from headrace.contracts.ids import AttemptId
from headrace.contracts.kept_text import TEXT_HEADER, KeptText
from headrace.contracts.outcomes import AttemptRecord, ResultRecord
from headrace.contracts.policy import Policy, PoolPolicy, TopicPolicy
from headrace.contracts.replies import Chunk
from headrace.contracts.reports import Gone, Report
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind, TopicNames, required_topics
from headrace.contracts.values import Origin, Payload
from headrace.inference_worker.settings import WorkerSettings
from headrace.inference_worker.timings import Timings
from headrace.inference_worker.wiring import serve
from headrace.runtime.clock import SystemClock
from headrace.runtime.telemetry import Telemetry
from tests.support.eventually import eventually_async

T = TypeVar("T")
POOL, GATEWAY, PARTITION = "small", 1, 2
POLICY = Policy(
    pools={POOL: PoolPolicy(models={"fake": "fake"})}, topics=TopicPolicy(tenant_partitions=4, lanes=2)
)
QUICK = Timings(
    report_every=timedelta(milliseconds=100), drain_grace=timedelta(seconds=10), probe_every=timedelta(milliseconds=200)
)  # fmt: skip


def chat(text: str = "hello", **more: object) -> bytes:
    return orjson.dumps({"model": "fake", "messages": [{"role": "user", "content": text}], **more})


@dataclass
class Stage:
    """What the owner and the gateway would see."""

    bus: Bus
    names: TopicNames
    worker: str
    stop: asyncio.Event
    telemetry: Telemetry | None = None
    task: asyncio.Task[None] | None = None
    readers: dict[Place, AsyncReader] = field(default_factory=dict)
    logs: dict[Place, list[Received]] = field(default_factory=dict)
    sequence: int = 0

    def place(self, kind: TopicKind, partition: int) -> Place:
        return Place(self.names.of(kind, pool=POOL, tier="standard"), partition)

    async def read(self, kind: TopicKind, partition: int = PARTITION) -> list[Received]:
        """All records so far: up to an end that is asked for, as a moment in which none comes is no end."""
        place = self.place(kind, partition)
        if place not in self.readers:
            reader = self.bus.async_reader(f"test-{kind}")
            await reader.start()
            await reader.assign({place: START})
            self.readers[place], self.logs[place] = reader, []
        reader = self.readers[place]

        async def ends() -> dict[Place, int]:
            try:
                return await reader.ends([place])
            except BusUnavailableError:
                return {}

        end = (await eventually_async(ends, f"the end of {place.topic}"))[place]
        while await reader.position(place) < end:
            self.logs[place] += await reader.read(1000, timedelta(milliseconds=20))
        return self.logs[place]

    async def records(self, kind: TopicKind, of: type[T], partition: int = PARTITION) -> list[T]:
        found = [decode(kind, record.header) for record in await self.read(kind, partition)]
        return [record for record in found if isinstance(record, of)]

    async def reports(self) -> list[Report]:
        return await self.records(TopicKind.WORKERS, Report, 0)

    async def registered(self) -> Report:
        """The first report of a worker that reads its lane: its own ping came back."""

        async def serving() -> Report | None:
            reports = await self.reports()
            return reports[-1] if reports and reports[-1].position > reports[0].position else None

        found = await eventually_async(serving, "a worker that has read its lane")
        assert found is not None
        return found

    async def send(self, command: Command, value: bytes = b"", headers: Any = ()) -> None:
        report = (await self.reports())[-1]
        producer = self.bus.async_producer("test-owner", delivery_timeout=timedelta(seconds=5))
        await producer.start()
        await producer.send(
            message_of(self.place(TopicKind.WORK, report.lane), command, value, trace=headers)
        )
        await producer.stop()

    async def run(
        self,
        body: bytes,
        *,
        trace: Any = (),
        finish_in: timedelta | None = None,
        stoppable: bool = False,
        text: KeptText | None = None,
        kept: bytes = b"",
        **request: Any,
    ) -> AttemptId:
        """Has the worker carry out one attempt."""
        report = (await self.reports())[-1]
        self.sequence += 1
        now = SystemClock().now().wall_ms
        record = RequestRecord(
            **{
                "id": f"req_{self.sequence}", "tenant": "acme", "pool": POOL, "tier": "standard", "partition": PARTITION,
                "model": "fake", "route": "/v1/chat/completions", "accepted_ms": now, "payload": Payload(size=len(body)),
                "gateway": GATEWAY, "plain_text": True, "prompt_tokens": 5,
                "finish_by_ms": None if finish_in is None else now + ms(finish_in),
                **request,
            }
        )  # fmt: skip
        run = Run(
            epoch=1, boot=report.boot, attempt=AttemptId(1, self.sequence), attempts=1, charge=9, request=record,
            origin=Origin("requests.small.standard", PARTITION, self.sequence), dispatched_ms=now,
            stoppable=stoppable, text=text,
        )  # fmt: skip
        await self.send(run, body, (*trace, (TEXT_HEADER, kept)) if kept else trace)
        return run.attempt

    async def cancel(self, attempt: AttemptId, reason: CancelReason = CancelReason.CALLER) -> None:
        boot = (await self.reports())[-1].boot
        await self.send(
            Cancel(epoch=1, boot=boot, attempt=attempt, id=f"req_{attempt.sequence}", reason=reason)
        )

    async def ended(self, attempt: AttemptId) -> AttemptRecord:
        """The attempt's record."""

        async def there() -> AttemptRecord | None:
            records = await self.records(TopicKind.ATTEMPTS, AttemptRecord)
            return next((record for record in records if record.attempt == attempt), None)

        found = await eventually_async(there, f"an attempts record of {attempt}")
        assert found is not None
        return found

    async def result(self, attempt: AttemptId) -> tuple[ResultRecord, bytes]:
        """Its terminal record and body; waits for the attempt's end."""
        await self.ended(attempt)
        results = [
            (decode(TopicKind.RESULTS, record.header), record.value or b"")
            for record in await self.read(TopicKind.RESULTS)
        ]
        (found,) = [pair for pair in results if pair[0].attempt == attempt]
        return found

    async def results_of(self, attempt: AttemptId) -> list[ResultRecord]:
        return [r for r in await self.records(TopicKind.RESULTS, ResultRecord) if r.attempt == attempt]

    async def chunks(self, attempt: AttemptId) -> list[tuple[Chunk, bytes]]:
        records = [
            (decode(TopicKind.REPLIES, record.header), record.value or b"")
            for record in await self.read(TopicKind.REPLIES, GATEWAY)
        ]
        return [pair for pair in records if pair[0].attempt == attempt]

    async def held(self) -> set[AttemptId]:
        return {held.attempt for held in (await self.reports())[-1].held}

    async def running(self, attempt: AttemptId) -> None:
        """Waits until the report says that the backend has it."""

        async def seen() -> bool:
            held = (await self.reports())[-1].held
            return any(one.attempt == attempt and one.running for one in held)

        await eventually_async(seen, f"{attempt} running")

    async def gone(self) -> bool:
        return bool(await self.records(TopicKind.WORKERS, Gone, 0))

    async def drained(self) -> None:
        """Asks the worker to stop and waits for its end."""
        assert self.task is not None
        self.stop.set()
        await asyncio.wait_for(self.task, 20)

    @property
    def well(self) -> bool:
        """Whether /readyz would say so."""
        assert self.telemetry is not None
        return not self.telemetry.health.verdict().not_ready

    async def close_readers(self) -> None:
        for reader in self.readers.values():
            await reader.stop()


async def prepare(bus: Bus, prefix: str) -> TopicNames:
    """The topics of the policy."""
    names, topics = TopicNames(prefix), bus.topics("test-admin")
    required = required_topics(names, POLICY.topics.counts(), pools=[POOL], tiers=POLICY.tiers)
    await asyncio.to_thread(apply_topics, topics, list(required))
    topics.close()
    return names


@asynccontextmanager
async def staged(
    bus: Bus, backend_url: str, *, prefix: str = "t.", timings: Timings = QUICK, **settings: Any
) -> AsyncIterator[Stage]:
    """A worker that serves; it has drained and stopped on leaving."""
    names = await prepare(bus, prefix)
    given = WorkerSettings(
        **{
            "name": f"w-{secrets.token_hex(3)}",
            "prefix": prefix,
            "pool": POOL,
            "backend_url": backend_url,
            **settings,
        }
    )
    telemetry, stop = Telemetry.create(given), asyncio.Event()
    task = asyncio.create_task(
        serve(given, bus=bus, policy=POLICY, telemetry=telemetry, stop=stop, timings=timings)
    )
    stage = Stage(bus, names, given.name, stop, telemetry, task)
    try:
        await stage.registered()
        yield stage
    finally:
        await stage.drained()
        await stage.close_readers()
