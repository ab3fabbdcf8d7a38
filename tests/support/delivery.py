"""One member of result-delivery, turned by hand, on a bus that a test may let fail. Called by tests/integration/delivery."""

from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from headrace.bus.memory import MemoryBus
from headrace.bus.memory.group_reader import MemoryGroupReader
from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import (
    START,
    Bus,
    BusUnavailableError,
    Confirmation,
    DeliveryUnknownError,
    LoopProducer,
)
from headrace.contracts.policy import Policy, PoolPolicy
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.result_delivery.adapters.database import open_engine
from headrace.result_delivery.settings import DeliverySettings
from headrace.result_delivery.wiring import DeliveryLoop, topics_of
from headrace.runtime.telemetry import Telemetry
from tests.support.eventually import eventually
from tests.support.log_ends import ends_of

POLICY = Policy(pools={"main": PoolPolicy(models={"small": "small"})})
PREFIX = "headrace."


class Killed(BaseException):
    """The process died here."""


class FaultyProducer:
    """A producer that dies before it sends to `dies_at`, or whose first messages to `lost` aren't confirmed."""

    def __init__(self, inner: LoopProducer, dies_at: str, lost: dict[str, int]) -> None:
        self._inner, self._dies_at, self._lost = inner, dies_at, lost
        self._refused: list[Confirmation] = []

    def send(self, message: Message, token: object) -> None:
        if message.topic == self._dies_at:
            raise Killed
        if self._lost.get(message.topic, 0) > 0:
            self._lost[message.topic] -= 1
            error = DeliveryUnknownError("lost by the test")
            self._refused.append(Confirmation(token, message.place, None, error))
            return
        self._inner.send(message, token)

    def confirmations(self) -> list[Confirmation]:
        refused, self._refused = self._refused, []
        return refused + self._inner.confirmations()

    def flush(self, timeout: timedelta) -> int:
        return self._inner.flush(timeout)

    def close(self, *, drop: bool = False) -> None:
        self._inner.close(drop=drop)


class FaultyBus(MemoryBus):
    """The bus in memory; `group` replaces the group's name, so that a member may believe that it owns everything."""

    group: str = ""
    dies_at: str = ""
    down: bool = False

    def __init__(self, broker_of: MemoryBus | None = None) -> None:
        super().__init__()
        self.lost: dict[str, int] = {}
        if broker_of is not None:
            self._broker, self._groups = broker_of._broker, broker_of._groups

    def group_reader(self, name: str, group: str) -> MemoryGroupReader:
        return super().group_reader(name, self.group or group)

    def loop_producer(self, name: str, *, delivery_timeout: timedelta) -> Any:
        inner = super().loop_producer(name, delivery_timeout=delivery_timeout)
        return FaultyProducer(inner, self.dies_at, self.lost)

    def topics(self, name: str) -> Any:
        if self.down:
            raise BusUnavailableError("no broker answers")
        return super().topics(name)


class Member:
    """A member that turns when it is told to."""

    def __init__(
        self,
        bus: Bus,
        database: str,
        name: str = "one",
        prefix: str = PREFIX,
        *,
        policy: Policy = POLICY,
        accept_loss: bool = False,
    ) -> None:
        self.settings = DeliverySettings(name=name, database=database, prefix=prefix, accept_loss=accept_loss)
        self.telemetry = Telemetry.create(self.settings)
        self.loop = DeliveryLoop(self.settings, bus=bus, policy=policy, telemetry=self.telemetry)
        self.loop.start()

    def turn_until(self, condition: Callable[[], Any], what: str) -> None:
        """Turns until the condition holds."""

        def turned() -> Any:
            self.loop.turn()
            return condition()

        eventually(turned, what)

    def leave(self) -> None:
        """A clean stop."""
        self.loop.drain()
        self.loop.stop()

    def die(self) -> None:
        """As after kill -9, once the group has noticed: nothing is drained."""
        delivery = self.loop._delivery
        assert delivery is not None
        delivery.reading.leave()
        delivery._store.close()

    @property
    def holds(self) -> int:
        """Records that it has read and not committed."""
        return len(self.loop._delivery.reading.share.held) if self.loop._delivery else 0

    def metric(self, name: str, **labels: str) -> float:
        """The value of one of its metrics; 0 when it hasn't been touched."""
        return self.telemetry.metrics.registry.get_sample_value(f"headrace_{name}", labels) or 0.0

    @property
    def troubles(self) -> list[str]:
        """Why it isn't ready."""
        return [trouble.reason for trouble in self.telemetry.health.verdict().not_ready]


def topic(kind: TopicKind, prefix: str = PREFIX) -> str:
    """A topic's name, in the pool `main` and the tier `standard` where it has any."""
    return TopicNames(prefix).of(kind, pool="main", tier="standard")


def apply(bus: Bus, prefix: str = PREFIX, *, policy: Policy = POLICY) -> None:
    """Creates the topics that result-delivery needs."""
    topics = bus.topics("test")
    topics.create(list(topics_of(prefix, policy)))
    topics.close()


def produce(bus: Bus, messages: Iterable[Message]) -> None:
    """Writes messages and waits for all of them."""
    producer = bus.loop_producer("test", delivery_timeout=timedelta(seconds=20))
    with closing(producer):
        for message in messages:
            producer.send(message, message)
        assert producer.flush(timedelta(seconds=20)) == 0
        assert [c.error for c in producer.confirmations() if c.error] == []


def records_in(bus: Bus, name: str) -> list[Received]:
    """Everything that stands in a topic, partition by partition."""
    topics, reader = bus.topics("test"), bus.loop_reader("test")
    with closing(topics), closing(reader):
        places = [Place(name, number) for number in range(topics.describe([name])[name].partitions)]
        ends = ends_of(bus, places)
        reader.assign(dict.fromkeys(places, START))
        found: list[Received] = []

        def all_read() -> bool:
            found.extend(reader.read(1_000, timedelta(milliseconds=200)))
            return all(reader.position(place) >= end for place, end in ends.items() if end)

        eventually(all_read, f"{name} read to its end")
    return sorted(found, key=lambda record: (record.partition, record.offset))


def rows(database: str, query: str) -> list[tuple[Any, ...]]:
    """What a query answers, on a connection of its own."""
    engine = open_engine(database)
    try:
        with engine.begin() as connection:
            return [tuple(row) for row in connection.execute(text(query))]
    finally:
        engine.dispose()
