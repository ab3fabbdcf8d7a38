"""Carries the blows out, and mends what it broke: nothing else is ever restarted. Called by the drill.

Invariant: one blow at a time for each victim, and one broker down at a time; a process that is dead, and that no blow has
killed, ended by itself and is told.
"""

import asyncio
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.devkit.kafka import BrokerFailed
from headrace.devkit.leash import Child
from headrace.devkit.probes import http_answers, wait_until
from tests.support.drill.plan import (
    ALL_BROKERS,
    BROKERS,
    DATABASE,
    ENGINES,
    OWNER,
    SCHEDULERS,
    SERVICES,
    Action,
    Blow,
)
from tests.support.drill.stage import Stage
from tests.support.fault_proxy import Cut

CUTS = {Action.CUT_SILENT: Cut.SILENT, Action.CUT_SLAMMED: Cut.SLAMMED}
WELL_ENDED = (0, 128 + 15)
"""The second: the signal came while it was starting, before it listens for one."""
CUT_SHORT = 1
"""While a broker is away, what a process holds can't always be handed back within its grace."""
GRACE, ALIVE, BACK, IN_SYNC = (timedelta(seconds=n) for n in (30, 60, 60, 240))
BROKER_BACK = timedelta(minutes=4)
"""A JVM that starts, reads its logs anew and waits for the end of its old session, beside all others at work."""
FAILURES = (BrokerFailed, OSError, AssertionError, KafkaException, psycopg.Error, sqlite3.Error)
"""With which a blow or its mending may fail; then the run is broken, and goes on."""
BROKERS_TURN = "brokers"
ONE_BY_ONE = dict.fromkeys((*BROKERS, ALL_BROKERS), BROKERS_TURN)


@dataclass(frozen=True, slots=True)
class Struck:
    """A blow that fell, with the Unix times in ms at which it began and was mended."""

    victim: str
    action: Action
    began_ms: int
    mended_ms: int


@dataclass
class Striker:
    """Strikes the stage. `broken`: sentences about what ended by itself or didn't come back."""

    stage: Stage
    say: Callable[[str], None]
    struck: list[Struck] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    _turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    # Threads that live as long as the stage: what one of them starts may die with it (postgres.py).
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(16))

    async def strike(self, blow: Blow) -> None:
        """At its time: the blow, its gap, and its mending. A victim that is still down is waited for."""
        await asyncio.sleep(blow.at_s)
        victim = await self._here(self.owner) if blow.victim == OWNER else blow.victim
        async with self._turns[ONE_BY_ONE.get(victim, victim)]:
            self.say(f"{blow.action} {victim} for {blow.gap_s:.1f} s")
            begin, mend = self._means(victim, blow.action)
            began_ms = _now_ms()
            if await self._done(begin, f"{blow.action} {victim}"):
                await asyncio.sleep(blow.gap_s)
            await self._done(mend, f"mending after {blow.action} {victim}")
            self.struck.append(Struck(victim, blow.action, began_ms, _now_ms()))

    async def _done(self, what: Callable[[], Any], told: str) -> bool:
        """Whether it could be done; what couldn't is mended all the same, for it may have been done half-way."""
        try:
            await self._here(what)
        except FAILURES as error:
            self.broken.append(f"{told}: {type(error).__name__} {error}")
            return False
        return True

    async def _here(self, what: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, what)

    def close(self) -> None:
        """Lets go of the threads; only after the stage's end."""
        self._threads.shutdown()

    def _means(self, victim: str, action: Action) -> tuple[Callable[[], Any], Callable[[], Any]]:
        if action in CUTS:
            ports = self.stage.doors[victim]
            return lambda: self.stage.proxy.cut(ports, CUTS[action]), lambda: self.stage.proxy.heal(ports)
        if victim == DATABASE:
            database = self.stage.database
            locks = action is Action.LOCK
            return (database.lock, database.unlock) if locks else (database.kill, database.start)
        if victim == ALL_BROKERS:
            return self._roll, lambda: None
        if victim in BROKERS:
            return self._broker_means(BROKERS.index(victim) + 1, action)
        return self._process_means(victim, action)

    def _broker_means(self, node: int, action: Action) -> tuple[Callable[[], Any], Callable[[], Any]]:
        cluster = self.stage.cluster

        def mend() -> None:
            cluster.resume(node) if action is Action.PAUSE else cluster.restart(node, BROKER_BACK)
            self.await_in_sync()

        return lambda: cluster.pause(node) if action is Action.PAUSE else cluster.kill(node), mend

    def _roll(self) -> None:
        for node in range(1, len(BROKERS) + 1):
            self.stage.cluster.kill(node)
            self.stage.cluster.restart(node, BROKER_BACK)
            self.await_in_sync()

    def _process_means(self, victim: str, action: Action) -> tuple[Callable[[], Any], Callable[[], Any]]:
        engine = victim in ENGINES
        process = self.stage.engines[victim] if engine else self.stage.stack.services[victim]
        if action is Action.PAUSE:
            return lambda: self._living(victim).pause(), lambda: self._living(victim).resume()

        def end() -> None:
            child, hindered = self._living(victim), self._turns[BROKERS_TURN].locked()
            status = child.kill() if action is Action.KILL else child.terminate(GRACE)
            hindered = hindered or self._turns[BROKERS_TURN].locked()
            well_ended = (*WELL_ENDED, CUT_SHORT) if hindered else WELL_ENDED
            if action is Action.END and status not in well_ended:
                self.broken.append(f"{victim} ended with status {status} when it was asked to end")

        def mend() -> None:
            process.launch()
            port = (
                self.stage.engines[victim].port if engine else self.stage.stack.services[victim].health_port
            )
            path = "/health" if engine else "/livez"
            if not wait_until(lambda: http_answers(port, path), ALIVE):
                self.broken.append(
                    f"{victim} doesn't answer {path} within {ALIVE.total_seconds():.0f} s of its start"
                )

        return end, mend

    def _living(self, victim: str) -> Child:
        child = (
            self.stage.engines[victim].child if victim in ENGINES else self.stage.stack.services[victim].child
        )
        if not child.alive:
            self.broken.append(f"{victim} ended by itself, with status {child.exit_status}")
        return child

    def await_in_sync(self) -> None:
        """Until each partition has all its copies: a second broker that dies before would take the partition along."""
        admin = AdminClient({"bootstrap.servers": self.stage.cluster.bootstrap})

        def in_sync() -> bool:
            with suppress(KafkaException):
                topics = admin.list_topics(timeout=5).topics.values()
                return all(
                    len(part.isrs) == len(part.replicas)
                    for topic in topics
                    for part in topic.partitions.values()
                )
            return False

        if not wait_until(in_sync, IN_SYNC):
            self.broken.append(f"the brokers aren't in sync within {IN_SYNC.total_seconds():.0f} s")

    def owner(self) -> str:
        """The scheduler that the last checkpoint names; the first one while there is none."""
        topic = f"{self.stage.stack.prefix}state.main"
        asking = {"bootstrap.servers": self.stage.cluster.bootstrap, "group.id": "drill-owner"}
        consumer = Consumer({**asking, "enable.auto.commit": False, "enable.partition.eof": True})
        try:
            high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
            consumer.assign([TopicPartition(topic, 0, max(0, high - 200))])
            owner = SCHEDULERS[0]
            while (message := consumer.poll(5)) is not None and message.error() is None:
                header: Any = dict(message.headers() or ())["headrace"]
                record = msgspec.json.decode(header)
                owner = record["owner"] if record["type"] == "ownership" else owner
            return str(owner)
        except KafkaException:
            return SCHEDULERS[0]
        finally:
            consumer.close()

    def await_back(self) -> None:
        """After the last blow: each service is ready again, by itself."""
        for name in SERVICES:
            service = self.stage.stack.services[name]
            port = service.health_port
            if not wait_until(lambda port=port: http_answers(port, "/readyz"), BACK):  # type: ignore[misc]
                state = "runs" if service.alive else f"ended with {service.child.exit_status}"
                self.broken.append(f"{name} isn't ready, it {state}: {service.last_lines(3)}")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
