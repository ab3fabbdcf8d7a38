"""Both buses for the contract suite, and a bench on which a test lays out topics, records and readers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.memory import MemoryBus
from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import START, Bus, Confirmation, LoopProducer, LoopReader
from headrace.contracts.topics import TOPICS, Topic, TopicKind
from tests.support.eventually import eventually
from tests.support.log_ends import ends_of

SOON = timedelta(milliseconds=100)
DELIVERY = timedelta(seconds=10)


@dataclass
class Bench:
    """One test's topics on one bus."""

    bus: Bus
    prefix: str
    writer: LoopProducer | None = None

    def topic(self, name: str, partitions: int = 1, *, room: int | None = None) -> list[Place]:
        """A new topic; its places."""
        rule = TOPICS[TopicKind.WORK]
        rule = rule if room is None else replace(rule, max_message_bytes=room)
        full = self.prefix + name
        topics = self.bus.topics("bench")
        topics.create([Topic(full, rule, partitions, 1, 1)])
        topics.close()
        places = [Place(full, number) for number in range(partitions)]
        ends_of(self.bus, places)  # a leader that doesn't know yet that it is one would end a member's thread
        return places

    def producer(self) -> LoopProducer:
        """A producer for loops."""
        return self.bus.loop_producer("bench-producer", delivery_timeout=DELIVERY)

    def write(self, place: Place, *values: bytes) -> list[int]:
        """Write these; their offsets."""
        # One for the test: a new idempotent librdkafka producer waits half a second for its id.
        producer = self.writer = self.writer or self.producer()
        for value in values:
            producer.send(Message(place.topic, place.partition, value), value)
        confirmed = confirmations_of(producer, len(values))
        offsets = [one.offset for one in confirmed if one.offset is not None]
        assert len(offsets) == len(values), confirmed
        return offsets

    @staticmethod
    def message(place: Place, value: bytes) -> Message:
        """One to write there."""
        return Message(place.topic, place.partition, value, key=value)

    def reader(self, *places: Place, position: int = START) -> LoopReader:
        """A reader of these."""
        reader = self.bus.loop_reader("bench-reader")
        reader.assign(dict.fromkeys(places, position))
        return reader


def confirmations_of(producer: LoopProducer, count: int) -> list[Confirmation]:
    """As many confirmations, in the order they came."""
    found: list[Confirmation] = []

    def enough() -> bool:
        found.extend(producer.confirmations())
        return len(found) >= count

    eventually(enough, f"{count} confirmations")
    return found


def read_values(reader: LoopReader, count: int) -> list[bytes | None]:
    """The values of the next `count` records."""
    return [record.value for record in read_records(reader, count)]


def read_records(reader: LoopReader, count: int) -> list[Received]:
    """The next `count` records, never one more."""
    found: list[Received] = []

    def enough() -> bool:
        found.extend(reader.read(count - len(found), SOON))
        return len(found) >= count

    eventually(enough, f"{count} records")
    return found


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def bench(request: pytest.FixtureRequest, prefix: str) -> Iterator[Bench]:
    """The bench on each bus."""
    if request.param == "memory":
        yield Bench(MemoryBus(), prefix)
    else:
        address: str = request.getfixturevalue("kafka")
        yield Bench(KafkaBus(KafkaConnection(address)), prefix)
