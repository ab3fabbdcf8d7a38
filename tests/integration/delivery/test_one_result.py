"""One result of each request, told after its commit, on SQLite and on PostgreSQL, whoever dies in between."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.bus.memory.broker import MemoryBroker
from headrace.bus.messages import Message, Place
from headrace.bus.ports import BusUnavailableError
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.failures import FailureKind
from headrace.contracts.topics import TopicKind
from headrace.result_delivery.settings import DeliverySettings
from headrace.result_delivery.wiring import serve
from headrace.runtime.telemetry import Telemetry
from tests.integration.delivery.answered import (
    DLQ,
    EVENTS,
    REPLIES,
    RESULTS,
    answers,
    ids,
    outbox_is_empty,
    stored,
    told,
)
from tests.support.delivery import POLICY, FaultyBus, Killed, Member, apply, produce, records_in, rows
from tests.support.eventually import eventually
from tests.support.log_ends import trim


def test_a_result_is_stored_told_and_published_once(bus: FaultyBus, database: str) -> None:
    produce(bus, [*answers(range(40)), *answers(range(40), attempt=2)])
    member = Member(bus, database)
    member.turn_until(lambda: len(stored(database)) == 40 and outbox_is_empty(database), "all is told")
    assert stored(database) == ids(range(40))
    assert rows(database, "SELECT DISTINCT attempt_sequence, status, usage_estimated FROM results") == [
        (1, "succeeded", False)
    ]
    assert sorted(told(bus)) == ids(range(40))
    assert {record.value for record in records_in(bus, REPLIES)} == {b'{"answer":%d}' % n for n in range(40)}
    assert len({dict(record.headers)["ce_id"] for record in records_in(bus, EVENTS)}) == 40
    assert member.metric("duplicates_suppressed_total") == 40
    assert member.metric("results_total", status="succeeded") == 40
    assert member.troubles == []
    member.leave()


def test_what_was_committed_and_not_sent_is_sent_by_the_next_life(bus: FaultyBus, database: str) -> None:
    produce(bus, answers(range(3)))
    bus.dies_at = REPLIES
    member = Member(bus, database)
    with pytest.raises(Killed):
        member.turn_until(lambda: False, "it dies")
    assert stored(database) == ids(range(3))
    assert told(bus) == []
    member.die()
    bus.dies_at = ""
    successor = Member(bus, database, "two")
    successor.turn_until(lambda: outbox_is_empty(database), "the outbox is sent")
    assert sorted(told(bus)) == ids(range(3))
    assert len(records_in(bus, EVENTS)) == 3
    successor.leave()


def test_a_message_whose_sending_is_unknown_is_sent_again(bus: FaultyBus, database: str) -> None:
    bus.lost = {REPLIES: 2, EVENTS: 1}
    produce(bus, answers(range(5)))
    member = Member(bus, database)
    member.turn_until(lambda: stored(database) and outbox_is_empty(database), "the outbox is sent")
    assert sorted(told(bus)) == ids(range(5))
    assert len(records_in(bus, EVENTS)) == 5
    member.leave()


def test_two_members_hand_over_and_every_request_has_one_result(bus: FaultyBus, database: str) -> None:
    first, second = Member(bus, database, "one"), Member(bus, database, "two")
    produce(bus, answers(range(60)))
    for _ in range(4):
        first.loop.turn()
        second.loop.turn()
    produce(bus, answers(range(60, 100)))
    first.loop.turn()
    first.leave()
    produce(bus, answers(range(100), attempt=2))
    second.turn_until(lambda: second.metric("duplicates_suppressed_total") >= 100, "the rest is read")
    second.turn_until(lambda: outbox_is_empty(database), "all is told")
    assert stored(database) == ids(range(100))
    assert set(told(bus)) == set(ids(range(100)))
    assert rows(database, "SELECT DISTINCT attempt_sequence FROM results") == [(1,)]
    second.leave()


def test_a_zombie_is_rolled_back_and_nothing_is_lost_or_told_twice(bus: FaultyBus, database: str) -> None:
    elsewhere = FaultyBus(bus)
    elsewhere.group = "another group, so that both believe they own every partition"
    owner, zombie = Member(bus, database, "owner"), Member(elsewhere, database, "zombie")
    produce(bus, answers(range(8)))
    owner.turn_until(lambda: len(stored(database)) == 8, "the owner commits")
    zombie.turn_until(lambda: zombie.metric("assigned_partitions") == 40, "the zombie knows the positions")
    for begin in range(8, 80, 8):
        produce(bus, answers(range(begin, begin + 8)))
        for member in (owner, zombie) if begin % 16 else (zombie, owner):
            member.loop.turn()
    owner.turn_until(lambda: len(stored(database)) == 80 and outbox_is_empty(database), "all is committed")
    failures = [member.metric("commit_failures_total", reason="lost_partition") for member in (owner, zombie)]
    assert sum(failures) > 0
    assert stored(database) == ids(range(80))
    assert sum(member.metric("results_total", status="succeeded") for member in (owner, zombie)) == 80
    assert set(told(bus)) == set(ids(range(80)))
    owner.leave()
    zombie.leave()


def test_an_undecodable_record_is_dead_lettered_with_its_bytes_before_the_position_passes_it(
    bus: FaultyBus, database: str
) -> None:
    bus.lost = {DLQ: 1}
    garbage = Message(RESULTS, 3, b"\x00raw\xff", ((HEADER, b"not json"), ("other", b"kept")), b"key")
    produce(bus, [*answers(range(3, 4)), garbage, *answers(range(11, 12))])
    member = Member(bus, database)
    member.turn_until(lambda: bus.lost == {DLQ: 0}, "the dead letter is lost once")
    assert rows(database, "SELECT * FROM positions") == []
    member.turn_until(lambda: len(stored(database)) == 2, "the neighbours are committed")
    (letter,) = records_in(bus, DLQ)
    header = decode(TopicKind.DLQ, letter.header)
    assert (header.reason, header.topic, header.partition, header.offset) == (
        FailureKind.UNDECODABLE,
        RESULTS,
        3,
        1,
    )
    assert (letter.partition, letter.value, letter.key) == (3, b"\x00raw\xff", b"key")
    assert dict(letter.headers)["headrace-original"] == b"not json"
    assert rows(database, "SELECT topic, partition, next_offset FROM positions") == [(RESULTS, 3, 3)]
    assert member.metric("dlq_total", reason="undecodable") == 1
    member.leave()


def test_without_a_broker_it_waits_and_says_so(database: str) -> None:
    bus = FaultyBus()
    bus.down = True
    member = Member(bus, database)
    member.turn_until(lambda: member.troubles == ["waiting for Kafka"], "it says what it waits for")
    bus.down = False
    apply(bus)
    member.turn_until(lambda: member.troubles == [], "it is ready")
    member.leave()


def test_a_log_that_begins_beyond_the_position_stops_it_with_a_sentence(
    bus: FaultyBus, database: str
) -> None:
    produce(bus, answers(range(4), partitions=1))
    member = Member(bus, database)
    member.turn_until(lambda: len(stored(database)) == 4, "it commits")
    member.leave()
    produce(bus, answers(range(4, 8), partitions=1))
    trim(bus, {Place(RESULTS, 0): 6})
    produce(bus, answers(range(9, 10)))
    successor = Member(bus, database, "two")
    successor.turn_until(lambda: successor.troubles, "it says so")
    assert successor.troubles == [
        "offset 4 of headrace.results/0 is gone: the log has 6 to 8: see HeadraceLogGone in docs/runbooks.md"
    ]
    successor.turn_until(lambda: len(stored(database)) == 5, "other partitions go on")
    assert (RESULTS, 0, 4) in rows(database, "SELECT topic, partition, next_offset FROM positions")
    successor.leave()


def test_served_in_a_thread_it_answers_until_it_is_told_to_stop(bus: FaultyBus, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'results.db'}"
    settings = DeliverySettings(name="one", database=database)
    stop, telemetry = threading.Event(), Telemetry.create(settings)
    produce(bus, answers(range(8)))
    with ThreadPoolExecutor(1) as threads:
        served = threads.submit(serve, settings, bus=bus, policy=POLICY, telemetry=telemetry, stop=stop)
        try:
            eventually(lambda: served.done() or len(told(bus)) == 8, "all are told")
        finally:
            stop.set()
        served.result(20)
    assert stored(database) == ids(range(8))
    assert outbox_is_empty(database)


def test_an_assignment_that_failed_half_way_is_made_again(
    bus: FaultyBus, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = MemoryBroker.resolve, iter([True])

    def flaky(broker: MemoryBroker, place: Place, position: int) -> int:
        if next(failures, False):
            raise BusUnavailableError("the broker left in this moment")
        return real(broker, place, position)

    monkeypatch.setattr(MemoryBroker, "resolve", flaky)
    produce(bus, answers(range(8)))
    member = Member(bus, database)
    member.turn_until(lambda: member.troubles == ["waiting for Kafka"], "the assignment fails")
    member.turn_until(lambda: len(stored(database)) == 8 and outbox_is_empty(database), "it joined again")
    assert sorted(told(bus)) == ids(range(8))
    member.leave()
