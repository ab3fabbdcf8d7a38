"""Connects one replica to Kafka and SQL, as soon as a broker answers. Called by wiring.py.

Invariant: what is yielded stands at the end of its partition of `replies`, so that nothing said of a request accepted
afterwards is missed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from headrace.bus.messages import Place
from headrace.bus.ports import AsyncProducer, Bus, BusUnavailableError
from headrace.bus.topic_check import require_topics
from headrace.contracts.policy import Policy
from headrace.contracts.seal import Seal
from headrace.contracts.topics import Topic, TopicKind, TopicNames, required_topics
from headrace.ingest.adapters.queue_states import QueueStates
from headrace.ingest.adapters.replies_reader import Listeners, RepliesReader
from headrace.ingest.adapters.results_sql import SqlResults, open_results
from headrace.ingest.settings import IngestSettings
from headrace.runtime.logging import get_logger
from headrace.runtime.telemetry import Telemetry

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0
_KINDS = (TopicKind.REQUESTS, TopicKind.CONTROL, TopicKind.REPLIES, TopicKind.QUEUE_STATE)


@dataclass(frozen=True, slots=True)
class Clients:
    """What is connected. `loops` run until they are cancelled; one that ends by itself ends the service."""

    producer: AsyncProducer
    results: SqlResults
    listeners: Listeners
    queues: QueueStates
    gateway: int
    loops: tuple[asyncio.Task[None], ...]


@contextlib.asynccontextmanager
async def connected(
    settings: IngestSettings,
    *,
    bus: Bus,
    policy: Policy,
    telemetry: Telemetry,
    seal: Seal,
    stop: asyncio.Event,
) -> AsyncIterator[Clients | None]:
    """The clients, connected and reading; None when told to stop before a broker answered. Raises WrongTopicsError."""
    gateway, name = settings.gateway_of(policy.topics.gateways), telemetry.replica
    kafka, listeners = telemetry.health.component("kafka"), Listeners()
    results = SqlResults(open_results(settings.database), seal, telemetry.clock)
    producer = bus.async_producer(name, delivery_timeout=settings.delivery_timeout)
    place = Place(TopicNames(settings.prefix).of(TopicKind.REPLIES), gateway)
    health = telemetry.health.component("replies")
    told = Place(TopicNames(settings.prefix).of(TopicKind.QUEUE_STATE), 0)
    queues = QueueStates(bus.async_reader(f"{name}-queues"), told, telemetry.clock)
    replies = RepliesReader(bus.async_reader(name), place, listeners, results, health)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(results.close)
        if not await _patiently(lambda: _check_topics(bus, name, required_of(policy, settings.prefix)), stop):
            yield None
            return
        for start, end in ((producer.start, producer.stop), (replies.start, replies.stop)):
            stack.push_async_callback(end)
            if not await _patiently(start, stop):
                yield None
                return
        kafka.ready()
        running = (replies.read_on(), replies.look_up(settings.lost_final_poll), queues.read_on())
        loops = tuple(asyncio.create_task(each) for each in running)
        stack.push_async_callback(_cancelled, loops)
        yield Clients(producer, results, listeners, queues, gateway, loops)


def required_of(policy: Policy, prefix: str) -> list[Topic]:
    """The topics that ingest writes or reads."""
    found = required_topics(
        TopicNames(prefix), policy.topics.counts(), pools=policy.pools, tiers=policy.tiers
    )
    return [topic for topic in found if topic.rule.kind in _KINDS]


async def _check_topics(bus: Bus, name: str, required: list[Topic]) -> None:
    def check() -> None:
        with contextlib.closing(bus.topics(name)) as topics:
            require_topics(topics, required)

    await asyncio.to_thread(check)


async def _patiently(step: Callable[[], Awaitable[None]], stop: asyncio.Event) -> bool:
    """Does a step as soon as a broker answers; False when told to stop before."""
    pause, told = _FIRST_PAUSE_SECONDS, False
    while not stop.is_set():
        try:
            await step()
        except BusUnavailableError as error:
            if not told:
                get_logger("ingest").warning("waiting for Kafka", reason=str(error))
            told = True
        else:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    return False


async def _cancelled(tasks: tuple[asyncio.Task[None], ...]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
