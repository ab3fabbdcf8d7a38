"""A log or a database that isn't the one it was: it is said in a sentence, and nothing is skipped in silence."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Message, Place
from headrace.contracts.topics import TopicKind
from headrace.result_delivery import topic_watch
from headrace.result_delivery.ports import DatabaseGoneError
from headrace.result_delivery.wiring import topics_of
from tests.support.delivery import POLICY, FaultyBus, Member, apply, produce, rows, topic
from tests.support.eventually import eventually
from tests.support.log_ends import trim
from tests.support.results import attempt, attempt_message, result, result_message

RESULTS, ATTEMPTS = topic(TopicKind.RESULTS), topic(TopicKind.ATTEMPTS)


def attempts(numbers: range, name: str = ATTEMPTS) -> list[Message]:
    return [attempt_message(name, attempt(number)) for number in numbers]


def results(numbers: range, name: str = RESULTS) -> list[Message]:
    return [result_message(name, result(number)) for number in numbers]


def count(database: str, table: str) -> int:
    return int(rows(database, f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608 a name of the test's own


def make_anew(bus: FaultyBus, name: str) -> None:
    """As the brokers show it afterwards: another id, and a log that is as long as the old one."""
    topics = bus._broker._topics
    topics[name] = replace(topics[name], id="another")


def test_a_topic_that_was_made_anew_while_nobody_looked_is_not_read(bus: FaultyBus, database: str) -> None:
    produce(bus, attempts(range(3)))
    member = Member(bus, database)
    member.turn_until(lambda: count(database, "ledger") == 3, "they are booked")
    member.leave()
    make_anew(bus, ATTEMPTS)
    produce(bus, [*attempts(range(3, 6)), *results(range(2))])
    successor = Member(bus, database, "two")
    successor.turn_until(lambda: count(database, "results") == 2, "other logs go on")
    sentence = (
        "the topic headrace.attempts.main was deleted and made anew, so position 3 of partition 0 in the database "
        "means nothing in it: see HeadraceLogGone in docs/runbooks.md"
    )
    assert successor.troubles == [sentence]
    assert successor.metric("unusable_partitions") == 1
    assert count(database, "ledger") == 3
    successor.leave()
    third = Member(bus, database, "three", accept_loss=True)
    third.turn_until(lambda: count(database, "ledger") == 6, "what there is is read, once it is accepted")
    assert third.troubles == []
    third.leave()
    fourth = Member(bus, database, "four")
    produce(bus, attempts(range(6, 7)))
    fourth.turn_until(lambda: count(database, "ledger") == 7, "the new topic is known from then on")
    fourth.leave()


def test_a_topic_that_is_made_anew_under_it_is_noticed(
    bus: FaultyBus, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_watch, "PERIOD", timedelta(milliseconds=50))
    produce(bus, [*attempts(range(3)), *results(range(1))])
    member = Member(bus, database)
    member.turn_until(lambda: count(database, "ledger") == 3, "they are booked")
    make_anew(bus, ATTEMPTS)
    member.turn_until(lambda: member.metric("unusable_partitions") == 1, "it is noticed")
    produce(bus, [*attempts(range(3, 6)), *results(range(1, 2))])
    member.turn_until(lambda: count(database, "results") == 2, "other logs go on")
    assert count(database, "ledger") == 3
    member.leave()


def test_a_new_database_does_not_take_a_trimmed_log_for_a_whole_one(bus: FaultyBus, database: str) -> None:
    produce(bus, [*attempts(range(3)), *results(range(2))])
    trim(bus, {Place(ATTEMPTS, 0): 2})
    member = Member(bus, database)
    member.turn_until(lambda: count(database, "results") == 2 and member.troubles, "it says so")
    assert "offset 0 of headrace.attempts.main/0 is gone" in member.troubles[0]
    assert count(database, "ledger") == 0
    member.leave()
    second = Member(bus, database, "two", accept_loss=True)
    second.turn_until(lambda: count(database, "ledger") == 1, "what there is is read, once it is accepted")
    second.leave()


def test_a_log_that_lost_its_tail_is_not_read(bus: FaultyBus, database: str) -> None:
    produce(bus, results(range(3)))
    member = Member(bus, database)
    member.turn_until(lambda: count(database, "results") == 3, "they are committed")
    member.leave()
    del bus._broker._logs[Place(RESULTS, 0)].records[1:]
    successor = Member(bus, database, "two")
    successor.turn_until(lambda: successor.troubles, "it says so")
    assert "offset 3 of headrace.results/0 is gone" in successor.troubles[0]
    successor.leave()


@pytest.mark.kafka
def test_on_kafka_a_topic_that_is_made_anew_under_it_is_not_read_on(
    kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_watch, "PERIOD", timedelta(milliseconds=200))
    database = f"sqlite:///{tmp_path / 'results.db'}"
    bus = KafkaBus(KafkaConnection(kafka))
    apply(bus, prefix)
    name = topic(TopicKind.RESULTS, prefix)
    produce(bus, results(range(3), name))
    member = Member(bus, database, prefix=prefix)
    member.turn_until(lambda: count(database, "results") == 3, "they are committed")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([name])[name].result(20)
    with closing(bus.topics("test")) as topics:
        eventually(lambda: name not in topics.describe([name]), "it is deleted")
        topics.create([each for each in topics_of(prefix, POLICY) if each.name == name])
    produce(bus, results(range(10, 15), name))
    member.turn_until(lambda: member.metric("unusable_partitions") >= 1, "it is noticed")
    member.turn_until(lambda: member.troubles, "it says so")
    assert f"the topic {name} was deleted" in member.troubles[0] or "is gone" in member.troubles[0]
    assert count(database, "results") == 3
    member.leave()


@pytest.mark.parametrize("then", ["deleted", "replaced"])
def test_a_database_file_that_goes_under_it_ends_the_service_with_a_sentence(
    bus: FaultyBus, tmp_path: Path, then: str
) -> None:
    file = tmp_path / "results.db"
    produce(bus, results(range(3)))
    member = Member(bus, f"sqlite:///{file}")
    member.turn_until(lambda: count(f"sqlite:///{file}", "results") == 3, "they are committed")
    file.rename(tmp_path / "away.db")
    if then == "replaced":
        file.write_bytes((tmp_path / "away.db").read_bytes())
    produce(bus, results(range(3, 4)))
    with pytest.raises(
        DatabaseGoneError, match=r"results\.db (was deleted|is another one).*start them again"
    ):
        member.turn_until(lambda: False, "it stops")
    member.loop.stop()
