"""Builds a worker from its settings and runs it. Called by `__main__.py` and by whoever runs all services in one process."""

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

from headrace.bus.messages import Place
from headrace.bus.ports import AsyncProducer, Bus, BusUnavailableError
from headrace.bus.topic_check import require_topics
from headrace.contracts.mistakes import CannotRunError
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy
from headrace.contracts.seal import Unsealed
from headrace.contracts.topics import Service, Topic, TopicKind, TopicNames, required_topics
from headrace.inference_worker.adapters.backend_http import HttpBackend
from headrace.inference_worker.attempt_runner import AttemptRunner, BackendFacts
from headrace.inference_worker.lane import Lane
from headrace.inference_worker.probing import Probing
from headrace.inference_worker.protocol.core import WorkerCore
from headrace.inference_worker.registration import Identity, Registration
from headrace.inference_worker.service import Logs, WorkerService
from headrace.inference_worker.settings import WorkerSettings
from headrace.inference_worker.timings import Timings
from headrace.inference_worker.worker_metrics import WorkerMetrics
from headrace.runtime.logging import get_logger
from headrace.runtime.telemetry import Telemetry

_REPORT_TIMEOUT, _OUTCOME_TIMEOUT = timedelta(seconds=10), timedelta(seconds=30)
_CHUNK_TIMEOUT, _BROKER_PAUSE = timedelta(seconds=5), timedelta(seconds=1)


async def serve(
    settings: WorkerSettings,
    *,
    bus: Bus,
    policy: Policy,
    telemetry: Telemetry,
    stop: asyncio.Event,
    timings: Timings | None = None,
) -> None:
    """Runs until `stop` is set, then drains and returns. Raises CannotRunError for an unknown pool or wrong topics."""
    if settings.pool not in policy.pools:
        known = ", ".join(sorted(policy.pools))
        raise CannotRunError(f"the worker's pool is {settings.pool!r}, but the policy knows {known}")
    wiring = _Wiring(settings, bus, policy, telemetry, timings or settings.timings())
    while not stop.is_set():
        async with AsyncExitStack() as stack:
            service = await wiring.connected(stack)
            if service is not None:
                await service.run(stop)
                return
        await wiring.wait_a_little(stop)


class _Wiring:
    """One worker's parts, made in the order in which they need each other."""

    def __init__(
        self, settings: WorkerSettings, bus: Bus, policy: Policy, telemetry: Telemetry, timings: Timings
    ) -> None:
        self._settings, self._bus, self._policy = settings, bus, policy
        self._telemetry, self._timings = telemetry, timings
        self._names, self._counts = TopicNames(settings.prefix), policy.topics.counts()
        self._readiness = telemetry.health.component("worker")
        self._metrics = WorkerMetrics(telemetry.metrics)
        self._told = False

    async def connected(self, stack: AsyncExitStack) -> WorkerService | None:
        """The service, connected; None while no broker answers. Raises WrongTopicsError."""
        try:
            await asyncio.to_thread(self._check_topics)
            return await self._service(stack)
        except BusUnavailableError as error:
            if not self._told:
                get_logger("worker").warning("waiting for Kafka", reason=str(error))
            self._told = True
            self._readiness.not_ready("Kafka doesn't answer")
            return None

    async def wait_a_little(self, stop: asyncio.Event) -> None:
        """Before the next try; no longer than until told to stop."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _BROKER_PAUSE.total_seconds())

    async def _service(self, stack: AsyncExitStack) -> WorkerService:
        """The service, with everything that `stack` closes when it has ended."""
        settings, name = self._settings, self._telemetry.replica
        backend = self._backend()
        stack.push_async_callback(backend.close)
        reports = await self._producer(stack, "reports", _REPORT_TIMEOUT)
        outcomes = await self._producer(stack, "outcomes", _OUTCOME_TIMEOUT)
        chunks = await self._producer(stack, "chunks", _CHUNK_TIMEOUT, acks_all=False)
        reader = self._bus.async_reader(f"{name}-lane")
        await reader.start()
        stack.push_async_callback(reader.stop)
        dlq = Place(self._names.of(TopicKind.DLQ), partition_of(name, self._counts.tenant_partitions))
        return WorkerService(
            WorkerCore(
                worker=name, limit=settings.limit, timings=self._timings, per_minute=settings.per_minute()
            ),
            Logs(self._names, settings.pool, reports, outcomes),
            registration=Registration(
                self._bus,
                self._names,
                Identity(name, settings.pool, self._counts.lanes),
                self._telemetry.clock,
            ),
            make_lane=partial(Lane, reader, outcomes, dlq=dlq, clock=self._telemetry.clock),
            runner=self._runner(backend, chunks),
            probing=Probing(backend, backend, timings=self._timings, metrics=self._metrics),
            clock=self._telemetry.clock,
            timings=self._timings,
            readiness=self._readiness,
            metrics=self._metrics,
        )

    def _backend(self) -> HttpBackend:
        key = self._settings.backend_api_key
        return HttpBackend(
            self._settings.backend_url,
            kind=self._settings.backend_kind,
            api_key=key.get_secret_value() if key else None,
            connect_within=self._settings.connect_timeout,
            probe_within=self._settings.connect_timeout,
        )

    def _runner(self, backend: HttpBackend, chunks: AsyncProducer) -> AttemptRunner:
        return AttemptRunner(
            backend,
            BackendFacts(self._settings.backend_kind, self._settings.backend_url, self._settings.resume),
            limits=self._settings.limits(),
            seal=Unsealed(),
            telemetry=self._telemetry,
            metrics=self._metrics,
            chunks=chunks,
            replies=self._names.of(TopicKind.REPLIES),
        )

    async def _producer(
        self, stack: AsyncExitStack, what: str, confirmed_within: timedelta, *, acks_all: bool = True
    ) -> AsyncProducer:
        producer = self._bus.async_producer(
            f"{self._telemetry.replica}-{what}", delivery_timeout=confirmed_within, acks_all=acks_all
        )
        await producer.start()
        stack.push_async_callback(producer.stop)
        return producer

    def _check_topics(self) -> None:
        admin = self._bus.topics(f"{self._telemetry.replica}-topics")
        try:
            require_topics(admin, self._required())
        finally:
            admin.close()

    def _required(self) -> Iterator[Topic]:
        for topic in required_topics(
            self._names, self._counts, pools=[self._settings.pool], tiers=self._policy.tiers
        ):
            if Service.WORKER in topic.rule.written_by | topic.rule.read_by:
                yield topic
