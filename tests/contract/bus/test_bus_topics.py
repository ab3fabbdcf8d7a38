"""What Topics promises on both buses, and the topic check on top of it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from headrace.bus.kafka import KafkaBus
from headrace.bus.messages import Place
from headrace.bus.ports import BusError, FoundTopic, TooFewBrokersError, TopicIdsAsked, Topics, TrimsAsked
from headrace.bus.topic_check import WrongTopicsError, apply_topics, differences, require_topics
from headrace.contracts.topics import Topic, TopicCounts, TopicNames, required_topics
from tests.contract.bus.conftest import Bench, read_values
from tests.support.eventually import eventually

COUNTS = TopicCounts(tenant_partitions=2, lanes=2, gateways=1)


def test_a_topic_is_found_as_it_was_created(bench: Bench) -> None:
    topics = bench.bus.topics("t")
    (place,) = bench.topic("t", room=12_345)
    bench.topic("t", room=99)  # again: no error, no change
    found = topics.describe([place.topic, place.topic + ".no"])
    assert list(found) == [place.topic]
    topic = found[place.topic]
    assert (topic.name, topic.partitions, topic.replication_factor) == (place.topic, 1, 1)
    assert topic.configs["max.message.bytes"] == "12345"
    assert topic.id
    topics.close()


def test_a_topic_grows_and_its_settings_change_one_by_one(bench: Bench) -> None:
    topics = bench.bus.topics("t")
    (place,) = bench.topic("t", room=12_345)
    topics.add_partitions(place.topic, 3)
    topics.set_configs(place.topic, {"retention.ms": "7000"})
    topic = topics.describe([place.topic])[place.topic]
    assert topic.partitions == 3
    assert (topic.configs["retention.ms"], topic.configs["max.message.bytes"]) == ("7000", "12345")
    bench.write(Place(place.topic, 2), b"x")
    with pytest.raises(BusError):
        topics.add_partitions(place.topic, 2)


class StillStarting:
    """Topics of brokers that take part in nothing yet: `refusals` times."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.created = refusals, list[str]()

    def describe(self, _names: Sequence[str]) -> dict[str, FoundTopic]:
        """There are none."""
        return {}

    def create(self, topics: Sequence[Topic]) -> None:
        """Refused as long as they start."""
        self.refusals -= 1
        if self.refusals >= 0:
            raise TooFewBrokersError("creating t failed: only 1 broker(s) are registered")
        self.created = [topic.name for topic in topics]


def test_brokers_that_are_still_starting_are_waited_for_as_long_as_one_wants() -> None:
    required = list(required_topics(TopicNames("t."), COUNTS, pools=["p"], tiers=["x"]))
    soon, never = StillStarting(2), StillStarting(10**9)
    done = apply_topics(cast("Topics", soon), required, timedelta(seconds=30))
    assert len(done) == len(required)
    assert soon.created == [topic.name for topic in required]
    with pytest.raises(TooFewBrokersError, match=r"after 300ms there are too few brokers: creating t failed"):
        apply_topics(cast("Topics", never), required, timedelta(milliseconds=300))


def test_more_copies_than_there_are_brokers_are_told_as_that(bench: Bench) -> None:
    if not isinstance(bench.bus, KafkaBus):
        return  # in memory there is one copy, whatever is asked for
    required = list(
        required_topics(TopicNames("few."), replace(COUNTS, replication_factor=7), pools=["p"], tiers=["x"])
    )
    topics = bench.bus.topics("t")
    with pytest.raises(TooFewBrokersError, match="replication_factor be at most as many"):
        apply_topics(topics, required, timedelta(seconds=0))
    topics.close()


def answered(asked: TrimsAsked | TopicIdsAsked) -> dict[Any, Any]:
    return dict(eventually(asked.answer, "the brokers answer") or {})


def test_a_loop_trims_without_waiting_and_is_told_where_each_log_begins(bench: Bench) -> None:
    trims = bench.bus.trims("t")
    first, second = bench.topic("t", partitions=2)
    for place in (first, second):
        bench.write(place, b"0", b"1", b"2")
    assert answered(trims.ask({first: 1, second: 2})) == {first: 1, second: 2}
    assert answered(trims.ask({first: 0})) == {first: 1}, "what is gone already is no error"
    refused = {first: 100, second: 3, Place(first.topic + ".no", 0): 0}
    assert answered(trims.ask(refused)) == {second: 3}
    assert read_values(bench.reader(first), 2) == [b"1", b"2"]
    assert trims.ask({}).answer() == {}
    trims.close()


def test_a_loop_asks_which_topics_these_are_without_waiting(bench: Bench) -> None:
    ids, topics = bench.bus.topic_ids("t"), bench.bus.topics("t")
    (place,) = bench.topic("t")
    found = answered(ids.ask([place.topic, place.topic + ".no"]))
    assert found == {place.topic: topics.describe([place.topic])[place.topic].id}
    assert ids.ask([]).answer() == {}
    ids.close()
    topics.close()


def test_applying_creates_what_is_missing_mends_what_is_wrong_and_then_has_nothing_to_do(
    bench: Bench,
) -> None:
    topics = bench.bus.topics("t")
    required = list(required_topics(TopicNames(bench.prefix), COUNTS, pools=["p"], tiers=["a"]))
    with pytest.raises(WrongTopicsError, match=r"is missing.*run `headrace topics apply`"):
        require_topics(topics, required)
    assert len(apply_topics(topics, required)) == len(required)
    require_topics(topics, required)
    assert apply_topics(topics, required) == []
    topics.set_configs(required[0].name, {"retention.ms": "1000"})
    grown = [replace(required[0], partitions=5), *required[1:]]
    assert len(differences(grown, topics.describe([one.name for one in grown]))) == 2
    assert len(apply_topics(topics, grown)) == 2
    require_topics(topics, grown)
    with pytest.raises(WrongTopicsError, match="can't shrink"):
        apply_topics(topics, required)
    require_topics(topics, grown)
