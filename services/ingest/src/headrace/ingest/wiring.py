"""Builds one replica of ingest and runs it until it is told to stop. Called by __main__.py and by the memory mode.

Order of starting: topics checked, producer and replies connected, and only then the API listens. Order of stopping: not
ready, open connections drained, cancels settled, clients closed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from headrace.bus.messages import Place
from headrace.bus.ports import AsyncProducer, Bus, BusUnavailableError
from headrace.bus.topic_check import require_topics
from headrace.contracts.policy import Policy
from headrace.contracts.seal import Unsealed
from headrace.contracts.topics import Topic, TopicKind, TopicNames, required_topics
from headrace.ingest.adapters.owner_queries import OwnerQueries
from headrace.ingest.adapters.replies_reader import Listeners, RepliesReader
from headrace.ingest.adapters.reply_log import KafkaReplyLog
from headrace.ingest.adapters.request_log import KafkaRequestLog
from headrace.ingest.adapters.results_sql import SqlResults, open_results
from headrace.ingest.doors.app import build_app
from headrace.ingest.doors.front import Front
from headrace.ingest.http_server import address_of, listen_on, server_for
from headrace.ingest.service import Ingest, Parts
from headrace.ingest.settings import IngestSettings
from headrace.runtime.logging import get_logger
from headrace.runtime.telemetry import Telemetry

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0
_KINDS = (TopicKind.REQUESTS, TopicKind.CONTROL, TopicKind.REPLIES)


@dataclass(frozen=True, slots=True)
class _Clients:
    """What is connected to the bus and to SQL."""

    producer: AsyncProducer
    replies: RepliesReader
    results: SqlResults
    listeners: Listeners
    gateway: int


async def serve(
    settings: IngestSettings,
    *,
    bus: Bus,
    policy: Policy,
    telemetry: Telemetry,
    stop: asyncio.Event,
    listening: Callable[[str], None] | None = None,
) -> None:
    """Runs until `stop` is set. `listening` is told the API's base URL. Raises WrongTopicsError, OSError."""
    log = get_logger("ingest")
    with contextlib.closing(listen_on(settings.host, settings.port)) as sock:
        async with _connected(settings, bus, policy, telemetry, stop) as clients:
            if clients is None:
                return
            ingest, front = _front(settings, bus, policy, telemetry, clients)
            server = server_for(build_app(front), drain=settings.drain)
            api = telemetry.health.component("api")
            serving = asyncio.create_task(server.serve([sock]))
            try:
                await _first_of(serving, server.listening)
                api.ready()
                log.info("listening", address=address_of(sock), gateway=clients.gateway)
                if listening is not None:
                    listening(address_of(sock))
                await _first_of(serving, stop)
            finally:
                api.not_ready("stopping")
                server.should_exit = True
                await serving
                await ingest.settle()


def _front(
    settings: IngestSettings, bus: Bus, policy: Policy, telemetry: Telemetry, clients: _Clients
) -> tuple[Ingest, Front]:
    names = TopicNames(settings.prefix)
    parts = Parts(
        policy=policy,
        id_key=settings.id_key_bytes(),
        gateway=clients.gateway,
        log=KafkaRequestLog(clients.producer, names, telemetry.clock),
        owners=OwnerQueries(clients.producer, names, clients.gateway, clients.listeners),
        results=clients.results,
        replies=clients.listeners,
        seal=Unsealed(),
        clock=telemetry.clock,
    )
    ingest, replies = Ingest(parts), names.of(TopicKind.REPLIES)

    def reply_log() -> KafkaReplyLog:
        return KafkaReplyLog(bus.async_reader(f"{telemetry.replica}-events"), replies)

    return ingest, Front(ingest, settings, telemetry, reply_log)


@contextlib.asynccontextmanager
async def _connected(
    settings: IngestSettings, bus: Bus, policy: Policy, telemetry: Telemetry, stop: asyncio.Event
) -> AsyncIterator[_Clients | None]:
    """The clients, connected and reading; None when told to stop before a broker answered."""
    names, gateway = TopicNames(settings.prefix), settings.gateway_of(policy.topics.gateways)
    health = telemetry.health.component("kafka")
    listeners = Listeners()
    results = SqlResults(open_results(settings.database), Unsealed())
    producer = bus.async_producer(telemetry.replica, delivery_timeout=settings.delivery_timeout)
    place = Place(names.of(TopicKind.REPLIES), gateway)
    replies = RepliesReader(
        bus.async_reader(telemetry.replica),
        place,
        listeners,
        results,
        telemetry.health.component("replies"),
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(results.close)
        for step, undo in (
            (_checking(settings, bus, policy, telemetry.replica), None),
            (producer.start, producer.stop),
            (replies.start, replies.stop),
        ):
            if not await _patiently(step, stop):
                yield None
                return
            if undo is not None:
                stack.push_async_callback(undo)
        health.ready()
        for loop in (replies.read_on(), replies.look_up(settings.lost_final_poll)):
            stack.push_async_callback(_cancelled, asyncio.create_task(loop))
        yield _Clients(producer, replies, results, listeners, gateway)


def _checking(settings: IngestSettings, bus: Bus, policy: Policy, name: str) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        await asyncio.to_thread(_check_topics, bus, name, required_of(policy, settings.prefix))

    return check


def required_of(policy: Policy, prefix: str) -> list[Topic]:
    """The topics that ingest writes or reads now."""
    found = required_topics(
        TopicNames(prefix), policy.topics.counts(), pools=policy.pools, tiers=policy.tiers
    )
    return [topic for topic in found if topic.rule.kind in _KINDS]


def _check_topics(bus: Bus, name: str, required: list[Topic]) -> None:
    with contextlib.closing(bus.topics(name)) as topics:
        require_topics(topics, required)


async def _patiently(step: Callable[[], Awaitable[None]], stop: asyncio.Event) -> bool:
    """Does a step as soon as a broker answers; False when told to stop before."""
    pause, told = _FIRST_PAUSE_SECONDS, False
    while not stop.is_set():
        try:
            await step()
        except BusUnavailableError as error:
            if not told:
                get_logger("ingest").warning("waiting_for_kafka", error=str(error))
            told = True
        else:
            return True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
    return False


async def _first_of(serving: asyncio.Task[None], event: asyncio.Event) -> None:
    """Until the event is set, or the server has ended."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
