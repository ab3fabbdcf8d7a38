"""A client that is closed is gone at once, threads and all, also after a failure: the garbage collector may come in hours.

Each of librdkafka's clients has some five threads and megabytes of buffers, and a scheduler makes half a dozen at each
change of owner.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from headrace.bus.asking import Asked
from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Message, Place
from headrace.bus.ports import START, BusError, FencedError, FencedState
from headrace.contracts.topics import TOPICS, Topic, TopicKind
from headrace.devkit.ports import LOOPBACK
from tests.support.eventually import eventually
from tests.support.leftovers import client_threads, without_collector

pytestmark = pytest.mark.kafka
NOBODY = f"{LOOPBACK}:1"


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    with without_collector():
        yield


@pytest.fixture
def bus(kafka: str) -> KafkaBus:
    return KafkaBus(KafkaConnection(kafka))


@pytest.fixture
def place(bus: KafkaBus, prefix: str) -> Place:
    topics = bus.topics("test")
    topics.create([Topic(f"{prefix}log", TOPICS[TopicKind.WORK], 1, 1, 1)])
    topics.close()
    return Place(f"{prefix}log", 0)


def assert_leaves_no_thread(use: Callable[[], None]) -> None:
    before = client_threads()
    use()
    eventually(lambda: client_threads() <= before, "the client's threads have ended")


def answered(asked: Asked[Any]) -> None:
    """Waits for the answer, or for the refusal."""

    def over() -> bool:
        with suppress(BusError):
            return asked.answer() is not None
        return True

    eventually(over, "an answer")


def claimed(state: FencedState) -> FencedState:
    eventually(state.claim, "the claim")
    return state


def test_a_producer_that_sent(bus: KafkaBus, place: Place) -> None:
    def use() -> None:
        producer = bus.loop_producer("test", delivery_timeout=timedelta(seconds=5))
        producer.send(Message(place.topic, 0, b"x"), "token")
        assert producer.flush(timedelta(seconds=5)) == 0
        assert producer.confirmations()[0].offset is not None
        producer.close()

    assert_leaves_no_thread(use)


def test_a_reader(bus: KafkaBus, place: Place) -> None:
    def use() -> None:
        reader = bus.loop_reader("test")
        reader.assign({place: START})
        reader.read(1, timedelta(milliseconds=50))
        reader.close()

    assert_leaves_no_thread(use)


@pytest.mark.parametrize("bootstrap", [None, NOBODY])
def test_a_question_that_was_answered_or_refused(kafka: str, bootstrap: str | None, place: Place) -> None:
    bus = KafkaBus(KafkaConnection(bootstrap or kafka))

    def use() -> None:
        ends, ids, trims = bus.ends("test"), bus.topic_ids("test"), bus.trims("test")
        for question in (ends.ask([place]), ids.ask([place.topic]), trims.ask({place: 0})):
            answered(question)
        for each in (ends, ids, trims):
            each.close()

    assert_leaves_no_thread(use)


def test_an_owner_that_was_fenced(bus: KafkaBus, place: Place) -> None:
    def use() -> None:
        first = claimed(bus.fenced_state("one", place=place, transactional_id=place.topic))
        second = claimed(bus.fenced_state("two", place=place, transactional_id=place.topic))
        first.begin([Message(place.topic, 0, b"late")])

        def fenced() -> bool:
            try:
                return first.committed()
            except FencedError:
                return True

        eventually(fenced, "the fence")
        first.close()
        second.close()

    assert_leaves_no_thread(use)


def test_topics_that_nobody_answers_for() -> None:
    def use() -> None:
        topics = KafkaBus(KafkaConnection(NOBODY)).topics("test")
        with suppress(BusError):
            topics.describe(["any"])
        topics.close()

    assert_leaves_no_thread(use)


def test_asking_for_topic_ids_again_and_again_keeps_none_of_them(bus: KafkaBus, place: Place) -> None:
    asking, before = bus.topic_ids("test"), uuids()
    kinds = set()
    for _ in range(20):
        found = eventually(asking.ask([place.topic]).answer, "an answer")
        assert found
        kinds.add(found[place.topic])
    asking.close()
    [_] = kinds
    assert uuids() <= before + 1


def uuids() -> int:
    """Ids of topics in this process: other tests leave some behind."""
    gc.collect()
    return sum(type(each).__name__ == "Uuid" for each in gc.get_objects())
