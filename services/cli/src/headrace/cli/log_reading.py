"""Reads logs to their ends and writes orders into `control`, for the commands that look at running pools or change them.

Invariant: what is read ends where the log ended when it was asked for; an order is acknowledged before it counts as given.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

from headrace.bus.messages import Message, Place, Received, message_of
from headrace.bus.ports import START, Bus, BusError, BusUnavailableError, Confirmation, LoopReader
from headrace.cli.brokers import bus_of, no_broker
from headrace.cli.trouble import Trouble
from headrace.contracts.barriers import Barrier
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.control import ControlRecord
from headrace.contracts.policy import Policy
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.runtime.settings import ServiceSettings

_NAME = "headrace-cli"
_BATCH, _WAIT = 1_000, timedelta(milliseconds=100)
_PATIENCE_S = 30.0
_NO_ANSWER = "no answer in time"
_LOOK_AGAIN_S = 0.05


class Logs:
    """The logs of one cluster, under one prefix."""

    def __init__(self, bus: Bus, prefix: str) -> None:
        self._bus, self.names = bus, TopicNames(prefix)

    def place(self, kind: TopicKind, pool: str = "") -> Place:
        """The only partition of a topic."""
        return Place(self.names.of(kind, pool=pool), 0)

    @contextmanager
    def following(self, kind: TopicKind, pool: str = "") -> Iterator["LogReading"]:
        """One log from its beginning on. Raises Trouble when it isn't there."""
        with self._reading(kind, self.place(kind, pool)) as reading:
            reading.begin(START)
            yield reading

    @contextmanager
    def news(self, kind: TopicKind, partition: int) -> Iterator["LogReading"]:
        """What comes from now on into a partition of a topic that all pools share. Raises Trouble when it isn't there."""
        with self._reading(kind, Place(self.names.of(kind), partition)) as reading:
            reading.begin(reading.end())
            yield reading

    @contextmanager
    def _reading(self, kind: TopicKind, place: Place) -> Iterator["LogReading"]:
        reader = self._bus.loop_reader(_NAME)
        try:
            yield LogReading(self._bus, reader, kind, place)
        except BusUnavailableError:
            raise
        except BusError as error:
            raise Trouble(str(error)) from error
        finally:
            reader.close()

    def order(self, pool: str, record: ControlRecord) -> None:
        """Write it to the pool's `control`. Raises Trouble when nobody acknowledged it."""
        (confirmed,) = self._written([message_of(self.place(TopicKind.CONTROL, pool), record)])
        if confirmed.offset is None:
            raise Trouble(
                f"the order wasn't acknowledged, so it may or may not be obeyed: {confirmed.error or _NO_ANSWER}"
            )

    def ends_of_requests(self, pool: str, policy: Policy) -> dict[Place, int]:
        """By partition of a pool's `requests` an offset before which all stands that was acknowledged until now, proved by a
        barrier in each: see contracts.barriers. Raises Trouble where one can't be written to.
        """
        topics = [self.names.of(TopicKind.REQUESTS, pool=pool, tier=tier) for tier in policy.tiers]
        places = [Place(topic, n) for topic in topics for n in range(policy.topics.tenant_partitions)]
        written = self._written([message_of(place, Barrier()) for place in places])
        ends: dict[Place, int] = {}
        for place, confirmed in zip(places, written, strict=True):
            if confirmed.offset is None:
                raise Trouble(
                    f"nothing was done: {place.topic}/{place.partition} takes no records, so nobody knows what stands in it: "
                    f"{confirmed.error or _NO_ANSWER}"
                )
            ends[place] = confirmed.offset
        return ends

    def _written(self, messages: list[Message]) -> list[Confirmation]:
        """What became of each. Raises BusUnavailableError while no broker answers: then certainly nothing is written."""
        with closing(self._bus.topics(_NAME)) as topics:
            topics.describe([messages[0].topic])
        producer = self._bus.loop_producer(_NAME, delivery_timeout=timedelta(seconds=10))
        try:
            for number, message in enumerate(messages):
                producer.send(message, number)
            producer.flush(timedelta(seconds=11))
            confirmed = {each.token: each for each in producer.confirmations()}
        finally:
            producer.close()
        return [confirmed.get(n, Confirmation(n, each.place, None)) for n, each in enumerate(messages)]


class LogReading:
    """One log while it is looked at."""

    def __init__(self, bus: Bus, reader: LoopReader, kind: TopicKind, place: Place) -> None:
        self._bus, self._reader, self._kind, self._place = bus, reader, kind, place

    def begin(self, position: int) -> None:
        """Read on from here."""
        self._reader.assign({self._place: position})

    def to_end(self) -> Iterator[tuple[Received, Any]]:
        """What stands between what was read last and the end, decoded; what can't be is the owner's to judge."""
        end, deadline = self.end(), monotonic() + _PATIENCE_S
        while self._reader.position(self._place) < end:
            for received in self._reader.read(_BATCH, _WAIT):
                try:
                    yield received, decode(self._kind, received.header)
                except UndecodableError:
                    continue
            if monotonic() > deadline:
                raise Trouble(f"{self._place.topic} wasn't read to its end in time")

    def end(self) -> int:
        """The offset after its last record now. Raises Trouble when nobody says."""
        ends, deadline = self._bus.ends(_NAME), monotonic() + _PATIENCE_S
        try:
            question = ends.ask([self._place])
            while (answer := question.answer()) is None:
                if monotonic() > deadline:
                    raise Trouble("the brokers didn't answer in time")
                sleep(_LOOK_AGAIN_S)
            return answer[self._place]
        finally:
            ends.close()


@contextmanager
def logs_of(settings: ServiceSettings) -> Iterator[Logs]:
    """The logs these settings name. Raises Trouble when no broker answers."""
    try:
        yield Logs(bus_of(settings), settings.prefix)
    except BusUnavailableError as error:
        raise no_broker(settings) from error
