"""Puts the scheduler together: `build` for a process of its own, `serve` for all services in one process."""

import random
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial

from headrace.bus.ports import Bus
from headrace.bus.topic_check import require_topics
from headrace.contracts.mistakes import CannotRunError
from headrace.contracts.policy import Policy
from headrace.contracts.topics import Topic, TopicKind, TopicNames, required_topics
from headrace.runtime.heartbeat import Vitals
from headrace.runtime.metrics import LoopMetrics
from headrace.runtime.telemetry import Telemetry
from headrace.scheduler.adapters.run_spans import RunSpans
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.observing import Observing
from headrace.scheduler.pool_loop import PoolLoop
from headrace.scheduler.service import NAME, Scheduler
from headrace.scheduler.settings import SchedulerSettings
from headrace.scheduler.timings import Timings

TURN = timedelta(milliseconds=100)
_OTHERS = {TopicKind.INBOX, TopicKind.EVENTS, TopicKind.TENANTS}


class UnknownPoolError(CannotRunError):
    """The settings name a pool that the policy doesn't have."""


def build(
    settings: SchedulerSettings,
    *,
    bus: Bus,
    policy: Policy,
    telemetry: Telemetry,
    timings: Timings | None = None,
) -> Scheduler:
    """The scheduler, not started. Raises UnknownPoolError."""
    watcher = Observing(telemetry.metrics)
    tracing = RunSpans(telemetry.tracing, collected=settings.otlp_endpoint is not None)

    def pool_loop(policy: Policy, pool: str) -> PoolLoop:
        return PoolLoop(
            _setting(settings, policy, pool, timings or Timings()),
            bus,
            clock=telemetry.clock,
            watcher=watcher,
            tracing=tracing,
            component=telemetry.health.component(f"pool {pool}"),
        )

    def make(policy: Policy) -> dict[str, Callable[[], PoolLoop]]:
        return {pool: partial(pool_loop, policy, pool) for pool in pools_of(settings, policy)}

    def check() -> None:
        topics = bus.topics(f"{NAME}-{settings.name}")
        try:
            require_topics(topics, topics_of(settings, policy))
        finally:
            topics.close()

    kafka = telemetry.health.component("kafka")
    return Scheduler(policy, make=make, check=check, clock=telemetry.clock, component=kafka)


def serve(
    settings: SchedulerSettings,
    *,
    bus: Bus,
    policy: Policy,
    telemetry: Telemetry,
    stop: threading.Event,
    timings: Timings | None = None,
) -> None:
    """Runs until `stop` is set, then releases its pools and returns. Raises what the service can't live with."""
    scheduler = build(settings, bus=bus, policy=policy, telemetry=telemetry, timings=timings)
    heartbeat = Vitals(telemetry.health, LoopMetrics(telemetry.metrics)).heartbeat(NAME)
    try:
        scheduler.start()
        while not stop.is_set():
            began_ms = telemetry.clock.now().boot_ms
            scheduler.turn()
            heartbeat.turned(timedelta(milliseconds=telemetry.clock.now().boot_ms - began_ms) - TURN)
    finally:
        scheduler.stop()


def pools_of(settings: SchedulerSettings, policy: Policy) -> tuple[str, ...]:
    """The pools of this replica. Raises UnknownPoolError."""
    unknown = [pool for pool in settings.pools if pool not in policy.pools]
    if unknown:
        raise UnknownPoolError(
            f"HEADRACE_SCHEDULER_POOLS names {', '.join(unknown)}, which the policy doesn't have; "
            f"it has {', '.join(policy.pools)}"
        )
    pools = settings.pools or tuple(policy.pools)
    if not pools:
        raise UnknownPoolError("the policy has no pool: name a policy file with one in HEADRACE_POLICY")
    return pools


def topics_of(settings: SchedulerSettings, policy: Policy) -> Iterable[Topic]:
    """The topics that this replica reads or writes. Raises UnknownPoolError."""
    return _topics_of(settings, policy, pools_of(settings, policy))


def topics_that_come(settings: SchedulerSettings, policy: Policy) -> Iterable[Topic]:
    """Those that it will read or write once this policy holds, beside those of pools that it knows and that went."""
    named = settings.pools or policy.pools
    return _topics_of(settings, policy, [pool for pool in named if pool in policy.pools])


def _topics_of(settings: SchedulerSettings, policy: Policy, pools: Iterable[str]) -> Iterable[Topic]:
    every = required_topics(
        TopicNames(settings.prefix), policy.topics.counts(), pools=pools, tiers=policy.tiers
    )
    return (topic for topic in every if topic.rule.kind not in _OTHERS)


def _setting(settings: SchedulerSettings, policy: Policy, pool: str, timings: Timings) -> Setting:
    records, size, spilled = settings.window_records, settings.window_bytes, settings.window_spilled
    return Setting(
        pool=pool,
        owner=settings.name,
        policy=policy,
        names=TopicNames(settings.prefix),
        replicas=settings.replicas,
        timings=timings,
        window=Window(records, records // 2, size, size // 2, spilled, spilled - spilled // 10),
        spill=SpillBounds(settings.tenant_records, settings.tenant_bytes),
        random=random.Random().random,  # noqa: S311 jitter needs no secret
    )
