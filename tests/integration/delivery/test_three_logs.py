"""What was accepted and what each attempt used, from the logs into SQL: each once, whatever is repeated or lies."""

import msgspec
import pytest

from headrace.bus.memory import MemoryBus
from headrace.bus.messages import Message, Place
from headrace.contracts.codec import HEADER, decode, encode
from headrace.contracts.control import DeliveryPosition
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import Policy, PoolPolicy
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.contracts.values import Failure, Origin, Usage
from headrace.result_delivery import publishing
from tests.support.delivery import PREFIX, FaultyBus, Member, apply, produce, records_in, rows, topic
from tests.support.results import (
    ACCEPTED_MS,
    attempt,
    attempt_message,
    request,
    request_id,
    request_message,
    result,
    result_message,
)

RESULTS, ATTEMPTS = topic(TopicKind.RESULTS), topic(TopicKind.ATTEMPTS)
REQUESTS, DLQ, CONTROL = topic(TopicKind.REQUESTS), topic(TopicKind.DLQ), topic(TopicKind.CONTROL)


def count(database: str, table: str) -> int:
    return int(rows(database, f"SELECT count(*) FROM {table}")[0][0])  # noqa: S608 a name of the test's own


def letters(bus: MemoryBus) -> list[tuple[FailureKind, str, int, int]]:
    found = [decode(TopicKind.DLQ, record.header) for record in records_in(bus, DLQ)]
    return sorted((each.reason, each.topic, each.partition, each.offset) for each in found)


def test_an_accepted_request_is_noted_without_its_payload(bus: FaultyBus, database: str) -> None:
    secret = request_message(REQUESTS, request(7, partition=3, stream=True), b'{"secret":1}')
    produce(bus, [secret, secret])
    member = Member(bus, database)
    member.turn_until(lambda: count(database, "requests") == 1, "it is noted")
    (row,) = rows(database, "SELECT * FROM requests")
    there = ("acme", "main", "standard", "small", "/v1/chat/completions", True, ACCEPTED_MS, REQUESTS, 3, 0)
    assert row == (request_id(7, 3), *there, 0)
    member.turn_until(lambda: rows(database, "SELECT next_offset FROM positions") == [(2,)], "both are read")
    assert count(database, "requests") == 1
    member.leave()


def test_each_finished_attempt_has_one_row_with_what_its_first_record_says(
    bus: FaultyBus, database: str
) -> None:
    failure = Failure(kind=FailureKind.BACKEND_ERROR, message="secret")
    failed = attempt(1, sequence=1, verdict=Verdict.RETRY_AT, status=None, failure=failure, started=False)
    again = attempt(1, sequence=1, usage=Usage(prompt_tokens=999))
    done = attempt(1, sequence=2)
    produce(bus, [attempt_message(ATTEMPTS, each) for each in (failed, again, done, done)])
    member = Member(bus, database)
    member.turn_until(lambda: count(database, "ledger") == 2, "both are booked")
    found = rows(
        database,
        "SELECT id, attempt_sequence, verdict, status, failure_kind, started, prompt_tokens, charge, pool,"
        " tenant, tier, model, worker, boot, finished_ms FROM ledger ORDER BY attempt_sequence",
    )
    rest = (25, "main", "acme", "standard", "small", "worker-1", "b1", ACCEPTED_MS + 1234)
    assert found == [
        (request_id(1), 1, "retry_at", None, "backend_error", False, 11, *rest),
        (request_id(1), 2, "done", "succeeded", None, True, 11, *rest),
    ]
    produce(bus, [attempt_message(ATTEMPTS, attempt(1, sequence=2, usage=Usage(prompt_tokens=999)))])
    member.turn_until(
        lambda: rows(database, "SELECT next_offset FROM positions") == [(5,)], "a late copy is read"
    )
    assert rows(database, "SELECT sum(prompt_tokens) FROM ledger") == [(22,)]
    member.leave()


def test_what_can_not_be_stored_is_dead_lettered_or_left_to_its_owner_and_its_neighbours_are_kept(
    bus: FaultyBus, database: str
) -> None:
    bus.lost = {DLQ: 1}
    garbage = ((HEADER, b"{"),)
    elsewhere = Origin("headrace.requests.other.standard", 0, 1)
    bad = [
        Message(RESULTS, 0, b"raw", garbage),
        Message(ATTEMPTS, 0, b"raw", garbage),
        Message(REQUESTS, 0, b"raw", garbage),
        Message(REQUESTS, 0, None, ()),
        Message(ATTEMPTS, 0, b"", ((HEADER, encode(attempt(2)).replace(b":11", b":-1")),)),
        request_message(REQUESTS, request(2, pool="other")),
        request_message(REQUESTS, request(2, tenant="a\0b")),
        attempt_message(ATTEMPTS, attempt(2, origin=elsewhere)),
        attempt_message(ATTEMPTS, attempt(2, tier="batch")),
        attempt_message(ATTEMPTS, attempt(2, id=request_id(2, 5))),
        attempt_message(ATTEMPTS, attempt(2, id="nonsense")),
        attempt_message(ATTEMPTS, attempt(2, status=Status.RUNNING)),
        attempt_message(ATTEMPTS, attempt(2, worker="a\0b")),
    ]
    good = [
        request_message(REQUESTS, request(1)),
        attempt_message(ATTEMPTS, attempt(1)),
        result_message(RESULTS, result(1)),
    ]
    produce(bus, [*bad, *good])
    member = Member(bus, database)
    member.turn_until(lambda: bus.lost == {DLQ: 0}, "a dead letter is lost once")
    assert count(database, "positions") == 0
    member.turn_until(lambda: member.holds == 0 and count(database, "positions") == 3, "all is committed")
    undecodable, lying, empty = (
        FailureKind.UNDECODABLE,
        FailureKind.LYING_RECORD,
        FailureKind.EMPTY_RECORD,
    )
    assert letters(bus) == [(undecodable, RESULTS, 0, 0)]
    left = {undecodable: 2, empty: 1, FailureKind.OUT_OF_BOUNDS: 1, FailureKind.UNKNOWN_POOL: 1, lying: 1}
    for reason, records in (left | {FailureKind.LYING_ATTEMPT: 6}).items():
        assert member.metric("left_to_owner_total", reason=reason) == records
    assert [count(database, table) for table in ("results", "ledger", "requests")] == [1, 1, 1]
    member.leave()


@pytest.mark.parametrize("backwards", [False, True])
def test_a_request_that_was_passed_on_is_noted_where_it_went_and_its_attempts_by_pool(
    bus: FaultyBus, database: str, backwards: bool
) -> None:
    pools = {name: PoolPolicy(models={name: name}) for name in ("main", "away", "third")}
    policy = Policy(pools=pools)
    apply(bus, policy=policy)
    names, home = TopicNames(PREFIX), request(1)
    messages = [request_message(REQUESTS, home)]
    for hop, pool in enumerate(("away", "third"), 1):
        through = ("main", "away")[:hop]
        moved = msgspec.structs.replace(home, pool=pool, model=pool, hop=hop, through=through)
        messages.append(request_message(names.of(TopicKind.REQUESTS, pool=pool, tier="standard"), moved))
    member = Member(bus, database, policy=policy)
    for message in reversed(messages) if backwards else messages:
        produce(bus, [message])
        member.turn_until(lambda: count(database, "requests") == 1 and not member.holds, "it is noted")
        for _ in range(3):
            member.loop.turn()
    assert rows(database, "SELECT pool, model, hop, origin_topic FROM requests") == [
        ("third", "third", 2, names.of(TopicKind.REQUESTS, pool="third", tier="standard"))
    ]
    origin = Origin(names.of(TopicKind.REQUESTS, pool="third", tier="standard"), 0, 0)
    there = attempt(1, origin=origin, hop=2)
    produce(bus, [attempt_message(ATTEMPTS, attempt(1))])
    produce(
        bus, [attempt_message(names.of(TopicKind.ATTEMPTS, pool="third"), each) for each in (there, there)]
    )
    member.turn_until(lambda: count(database, "ledger") == 2, "attempts of one number are those of two pools")
    assert rows(database, "SELECT pool FROM ledger ORDER BY pool") == [("main",), ("third",)]
    member.leave()


def test_nobody_pays_for_somebody_elses_request(bus: FaultyBus, database: str) -> None:
    produce(bus, [request_message(REQUESTS, request(number)) for number in (1, 2)])
    produce(bus, [attempt_message(ATTEMPTS, attempt(1)), result_message(RESULTS, result(3))])
    produce(bus, [attempt_message(ATTEMPTS, attempt(1, sequence=2, tenant="birch"))])
    produce(bus, [attempt_message(ATTEMPTS, attempt(3, tenant="acme"))])
    member = Member(bus, database)
    member.turn_until(lambda: count(database, "ledger") == 2, "the others are booked")
    produce(bus, [attempt_message(ATTEMPTS, attempt(2, tenant="birch")), result_message(RESULTS, result(4))])
    member.turn_until(lambda: len(letters(bus)) == 2, "both lies are buried, in a batch and after one")
    assert letters(bus) == [(FailureKind.FOREIGN_TENANT, ATTEMPTS, 0, offset) for offset in (1, 3)]
    member.turn_until(lambda: count(database, "results") == 2, "neighbours are kept")
    assert rows(database, "SELECT DISTINCT tenant FROM ledger") == [("acme",)]
    assert count(database, "ledger") == 2
    member.leave()


def test_the_owners_own_end_of_a_lying_request_is_booked(bus: FaultyBus, database: str) -> None:
    end = attempt(2, id="nonsense", verdict=Verdict.DEAD, status=Status.DEAD_LETTERED, started=False)
    produce(bus, [attempt_message(ATTEMPTS, end)])
    member = Member(bus, database)
    member.turn_until(lambda: rows(database, "SELECT id FROM ledger") == [("nonsense",)], "it is booked")
    member.leave()


def told(bus: FaultyBus) -> list[tuple[Place, int]]:
    records: list[DeliveryPosition] = [
        decode(TopicKind.CONTROL, each.header) for each in records_in(bus, CONTROL)
    ]
    return [(Place(each.topic, each.partition), each.next_offset) for each in records]


def test_each_owner_is_told_what_is_committed_once_and_again_after_a_new_assignment(
    bus: FaultyBus, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.lost = {CONTROL: 1}
    produce(bus, [request_message(REQUESTS, request(1)), attempt_message(ATTEMPTS, attempt(1))])
    produce(bus, [result_message(RESULTS, result(1))])
    member = Member(bus, database)
    monkeypatch.setattr(publishing, "PERIOD", publishing.PERIOD / 20)
    both = [(Place(ATTEMPTS, 0), 1), (Place(REQUESTS, 0), 1)]
    member.turn_until(lambda: sorted(told(bus)) == both, "the owner is told, also what got lost once")
    produce(bus, [request_message(REQUESTS, request(2))])
    member.turn_until(lambda: told(bus)[2:] == [(Place(REQUESTS, 0), 2)], "only what has changed")
    member.leave()
    successor = Member(bus, database, "two")
    successor.turn_until(
        lambda: sorted(told(bus)[3:]) == [(Place(ATTEMPTS, 0), 1), (Place(REQUESTS, 0), 2)],
        "a successor tells what it goes on from",
    )
    successor.leave()
