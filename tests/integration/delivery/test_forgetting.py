"""What has ended long ago is deleted where the policy says so; what hasn't ended, and the ledger, stay."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from headrace.contracts.policy import KeepPolicy
from headrace.contracts.topics import TopicKind
from headrace.result_delivery import forgetting
from tests.support.delivery import POLICY, FaultyBus, Member, apply, produce, rows, topic
from tests.support.results import (
    attempt,
    attempt_message,
    request,
    request_id,
    request_message,
    result,
    result_message,
)


def counts(database: str) -> list[int]:
    tables = ("results", "requests", "ledger")
    return [int(rows(database, f"SELECT count(*) FROM {table}")[0][0]) for table in tables]  # noqa: S608


def test_old_results_go_with_their_requests_a_page_at_a_time(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "_PAGE", 2)
    bus = FaultyBus()
    apply(bus)
    requests, results, attempts = (
        topic(kind) for kind in (TopicKind.REQUESTS, TopicKind.RESULTS, TopicKind.ATTEMPTS)
    )
    produce(bus, [request_message(requests, request(number)) for number in range(6)])
    produce(bus, [result_message(results, result(number)) for number in range(5)])
    produce(bus, [attempt_message(attempts, attempt(number)) for number in range(5)])
    member = Member(bus, database)
    member.turn_until(lambda: counts(database) == [5, 6, 5], "all is stored")
    for _ in range(5):
        member.loop.turn()
    assert counts(database) == [5, 6, 5], "without a word about it everything is kept"
    member.leave()
    keeping = replace(POLICY, keep=KeepPolicy(results=timedelta(hours=1)))
    second = Member(bus, database, "two", policy=keeping)
    for _ in range(5):
        second.loop.turn()
    assert counts(database) == [5, 6, 5], "their time isn't over"
    second.leave()
    passing = replace(POLICY, keep=KeepPolicy(results=timedelta(milliseconds=1)))
    third = Member(bus, database, "three", policy=passing)
    third.turn_until(lambda: counts(database) == [0, 1, 5], "they are deleted")
    assert rows(database, "SELECT id FROM requests") == [(request_id(5),)]
    third.leave()
