"""What the clients are told, where a wrong word would lose records in silence. Each is a hazard of docs/kafka-hazards.md."""

from datetime import timedelta
from typing import Any

import pytest

from headrace.bus.kafka import group_reader, loop_producer, state
from headrace.bus.kafka.async_producer import KafkaAsyncProducer
from headrace.bus.kafka.async_reader import KafkaAsyncReader
from headrace.bus.kafka.connection import KafkaConnection
from headrace.bus.kafka.consuming import consumer_settings
from headrace.bus.messages import Place
from headrace.contracts.topics import TopicCounts, TopicNames, required_topics

NOWHERE = KafkaConnection("127.0.0.1:1")
SECOND = timedelta(seconds=1)


class Told:
    """Stands in for a client of librdkafka, and keeps what it was told."""

    settings: dict[str, Any]

    def __init__(self, settings: dict[str, Any]) -> None:
        type(self).settings = settings


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> type[Told]:
    for module, name in ((loop_producer, "Producer"), (state, "Producer"), (group_reader, "Consuming")):
        monkeypatch.setattr(module, name, Told)
    return Told


def test_no_reader_resets_commits_or_creates_anything() -> None:
    settings = consumer_settings(NOWHERE, "name", "group")
    assert settings["auto.offset.reset"] == "error"
    assert settings["isolation.level"] == "read_committed"
    assert not settings["enable.auto.commit"]
    assert not settings["enable.auto.offset.store"]
    assert not settings["allow.auto.create.topics"]
    asynchronous = KafkaAsyncReader(NOWHERE, "name")._settings
    assert asynchronous["auto_offset_reset"] == "none"
    assert asynchronous["isolation_level"] == "read_committed"
    assert asynchronous["group_id"] is None
    assert not asynchronous["enable_auto_commit"]


def test_the_group_speaks_the_classic_protocol_with_range_and_six_seconds(told: type[Told]) -> None:
    group_reader.KafkaGroupReader(NOWHERE, "name", "group")
    assert told.settings["group.protocol"] == "classic"
    assert told.settings["partition.assignment.strategy"] == "range"
    assert told.settings["session.timeout.ms"] == 6_000
    assert "group.instance.id" not in told.settings


def test_an_open_transaction_ends_within_15_seconds(told: type[Told]) -> None:
    fenced_state()
    assert told.settings["transaction.timeout.ms"] <= 15_000
    assert told.settings["message.timeout.ms"] <= told.settings["transaction.timeout.ms"]


def test_a_checkpoint_waits_milliseconds_between_its_steps(told: type[Told]) -> None:
    fenced_state()
    assert told.settings["retry.backoff.ms"] <= 10
    assert told.settings["linger.ms"] == 0


def fenced_state() -> None:
    made = state.KafkaFencedState(NOWHERE, "name", Place("t", 0), "an.id")
    made._new_producer()


def test_whoever_writes_the_truth_waits_for_all_replicas(told: type[Told]) -> None:
    loop_producer.KafkaLoopProducer(NOWHERE, "name", SECOND)
    assert told.settings["acks"] == "all"
    assert told.settings["enable.idempotence"]
    assert told.settings["message.timeout.ms"] == 1_000
    settings = KafkaAsyncProducer(NOWHERE, "name", SECOND, acks_all=True)._settings
    assert settings["acks"] == "all"
    assert settings["enable_idempotence"]
    assert settings["request_timeout_ms"] <= 10_000


def test_timestamps_are_the_brokers_and_leaders_are_clean() -> None:
    counts = TopicCounts(replication_factor=3, min_insync_replicas=2)
    topics = list(required_topics(TopicNames("t."), counts, pools=["p"], tiers=["batch"]))
    assert {topic.configs()["message.timestamp.type"] for topic in topics} == {"LogAppendTime"}
    assert {topic.configs()["unclean.leader.election.enable"] for topic in topics} == {"false"}
    assert {topic.configs()["min.insync.replicas"] for topic in topics} == {"2"}
