"""A client that is of no more use is replaced, and everybody whose record it held is told."""

from datetime import timedelta

import pytest
from confluent_kafka import KafkaError

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.kafka.async_producer import KafkaAsyncProducer
from headrace.bus.kafka.loop_producer import KafkaLoopProducer
from headrace.bus.messages import Message, Place
from headrace.bus.ports import Confirmation, TooLargeError
from headrace.contracts.topics import TOPICS, Topic, TopicKind
from tests.support.eventually import eventually

pytestmark = pytest.mark.kafka

PATIENT = timedelta(seconds=20)


@pytest.fixture
def place(kafka: str, prefix: str) -> Place:
    topics = KafkaBus(KafkaConnection(kafka)).topics("test")
    topics.create([Topic(prefix + "t", TOPICS[TopicKind.WORK], 1, 1, 1)])
    topics.close()
    return Place(prefix + "t", 0)


def test_a_plain_loops_producer_is_replaced_after_a_fatal_error(kafka: str, place: Place) -> None:
    producer = KafkaLoopProducer(KafkaConnection(kafka), "fatal", PATIENT)
    seen: list[Confirmation] = []

    def confirmed(token: str) -> list[Confirmation]:
        seen.extend(producer.confirmations())
        return [one for one in seen if one.token == token]

    producer.send(Message(place.topic, place.partition, b"one"), "one")
    (first,) = eventually(lambda: confirmed("one"), "the first record is confirmed")
    assert first.offset == 0
    # A real broker has no fatal error to give: it is handed to the callback that librdkafka would call.
    broken = producer._client
    producer._noticed(KafkaError(KafkaError._FATAL, fatal=True))
    producer.send(Message(place.topic, place.partition, b"two"), "two")
    (second,) = eventually(lambda: confirmed("two"), "the second record is confirmed")
    assert second.offset == 1
    assert producer._client is not broken
    producer.close()


def test_what_a_broken_client_still_held_is_told_to_be_unknown(place: Place) -> None:
    producer = KafkaLoopProducer(KafkaConnection("127.0.0.1:1"), "fatal", PATIENT)
    producer.send(Message(place.topic, place.partition, b"one"), "one")
    producer._noticed(KafkaError(KafkaError._FATAL, fatal=True))
    (told,) = producer.confirmations()
    assert (told.token, told.offset, told.unknown) == ("one", None, True)
    producer.close(drop=True)


async def test_an_asyncio_producer_is_replaced_after_a_batch_failed(kafka: str, place: Place) -> None:
    producer = KafkaAsyncProducer(KafkaConnection(kafka), "fatal", PATIENT, acks_all=True)
    await producer.start()
    first = producer._client
    topics = KafkaBus(KafkaConnection(kafka)).topics("test")
    topics.set_configs(place.topic, {"max.message.bytes": "1000"})
    topics.close()
    with pytest.raises(TooLargeError):
        await producer.send(Message(place.topic, place.partition, b"x" * 5_000))
    assert await producer.send(Message(place.topic, place.partition, b"fits")) == 0
    assert producer._client is not first
    await producer.stop()
