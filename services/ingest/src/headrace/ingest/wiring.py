"""Builds one replica of ingest and runs it until it is told to stop. Called by __main__.py and by the memory mode.

Order of starting: topics checked, producer and replies connected, and only then the API listens. Order of stopping: not
ready, event streams ended, open connections drained, those who still wait told, cancels settled, clients closed.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta

from headrace.bus.ports import Bus
from headrace.contracts.policy import Policy
from headrace.contracts.seal import Unsealed
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.ingest.adapters.owner_queries import OwnerQueries
from headrace.ingest.adapters.replies_reader import Listeners
from headrace.ingest.adapters.reply_log import KafkaReplyLog
from headrace.ingest.adapters.request_log import KafkaRequestLog
from headrace.ingest.connecting import Clients, connected
from headrace.ingest.doors.app import build_app
from headrace.ingest.doors.front import Front
from headrace.ingest.http_server import address_of, listen_on, server_for
from headrace.ingest.service import Ingest, Parts
from headrace.ingest.settings import IngestSettings
from headrace.runtime.logging import get_logger
from headrace.runtime.policy_watch import PolicyWatch, follow
from headrace.runtime.telemetry import Telemetry

_TELL_AT = 0.8
"""The share of the drain after which those who wait are told."""


async def serve(
    settings: IngestSettings,
    *,
    bus: Bus,
    policy: Policy,
    telemetry: Telemetry,
    stop: asyncio.Event,
    listening: Callable[[str], None] | None = None,
    watch: PolicyWatch | None = None,
) -> None:
    """Runs until `stop` is set. `listening` is told the API's base URL; `watch` tells of other policies.

    Raises CannotRunError.
    """
    api = telemetry.health.component("api")  # unready from the first moment until the API listens
    with contextlib.closing(listen_on(settings.host, settings.port)) as sock:
        connecting = connected(
            settings, bus=bus, policy=policy, telemetry=telemetry, seal=Unsealed(), stop=stop
        )
        async with connecting as clients:
            if clients is None:
                return
            front = _front(settings, bus=bus, policy=policy, telemetry=telemetry, clients=clients)
            server = server_for(build_app(front), drain=settings.drain)
            serving = asyncio.create_task(server.serve([sock]))
            following = [] if watch is None else [asyncio.create_task(follow(watch, front.ingest.adopt))]
            try:
                await _until(server.listening, serving, *clients.loops)
                api.ready()
                _announce(address_of(sock), clients.gateway, listening)
                await _until(stop, serving, *clients.loops, *following)
            finally:
                for task in following:
                    task.cancel()
                api.not_ready("stopping")
                front.stopping.set()
                server.should_exit = True
                await _drained(serving, clients.listeners, settings.drain)
                await front.ingest.settle()


def _front(
    settings: IngestSettings, *, bus: Bus, policy: Policy, telemetry: Telemetry, clients: Clients
) -> Front:
    names, clock = TopicNames(settings.prefix), telemetry.clock
    parts = Parts(
        policy=policy,
        id_key=settings.id_key_bytes(),
        gateway=clients.gateway,
        log=KafkaRequestLog(clients.producer, names, clock),
        owners=OwnerQueries(clients.producer, names, clients.gateway, clients.listeners),
        queues=clients.queues,
        results=clients.results,
        replies=clients.listeners,
        seal=Unsealed(),
        clock=clock,
    )
    replies = names.of(TopicKind.REPLIES)

    def reply_log() -> KafkaReplyLog:
        return KafkaReplyLog(bus.async_reader(f"{telemetry.replica}-events"), replies)

    return Front(Ingest(parts), settings, telemetry, reply_log)


async def _drained(serving: asyncio.Task[None], listeners: Listeners, drain: timedelta) -> None:
    """Lets connections go on, but tells who still waits near the end that it has come, before the server cuts them off."""
    _, late = await asyncio.wait({serving}, timeout=_TELL_AT * drain.total_seconds())
    if late:
        listeners.send_away()
    await serving


def _announce(address: str, gateway: int, listening: Callable[[str], None] | None) -> None:
    get_logger("ingest").info("listening", address=address, gateway=gateway)
    if listening is not None:
        listening(address)


async def _until(event: asyncio.Event, *running: asyncio.Task[None]) -> None:
    """Until the event is set. Raises what ended one of those that should run on."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting, *running}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    for task in running:
        if task.done():
            task.result()
            raise RuntimeError(f"{task.get_name()} ended by itself")
