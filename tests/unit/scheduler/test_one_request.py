"""One request's way through the core: released, expired, tried again, seen twice, or buried with its bytes."""

from typing import Any

import pytest

from headrace.bus.messages import Message
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.commands import Cancel, CancelReason, Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import QueueState
from headrace.contracts.outcomes import Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.pure import place


def test_a_run_carries_the_payload_the_trace_and_the_first_attempt(case: Case) -> None:
    record = case.submit(b'{"a":1}')
    case.run(300)
    sent = case.world.logs[place(TopicKind.WORK, 0)][-1]
    run = decode(TopicKind.WORK, sent.header)
    assert sent.value == b'{"a":1}'
    assert ("traceparent", b"00-x") in sent.headers
    assert (run.request, run.attempts, run.attempt, run.boot) == (record, 1, (1, 1), BOOT)


def test_no_more_is_released_than_the_worker_may_hold(case: Case) -> None:
    for _ in range(6):
        case.submit()
    case.run()
    assert len(case.commands(Run)) == 4
    case.answer(case.commands(Run)[0], Verdict.DONE, status=Status.SUCCEEDED)
    case.run(300)
    assert len(case.commands(Run)) == 5


def test_a_request_that_fails_four_times_is_dead_lettered_with_its_bytes(case: Case) -> None:
    record = case.submit(b"poison")
    for attempt in range(1, 5):
        case.report()
        case.run(3_000)
        run = case.commands(Run)[-1]
        assert run.attempts == attempt
        case.answer(run, Verdict.RETRY_AT, failure=Failure(kind=FailureKind.BACKEND_ERROR))
    case.run(1_000)
    assert case.results() == [(record.id, Status.DEAD_LETTERED, FailureKind.ATTEMPTS_EXHAUSTED)]
    letters = case.world.logs[place(TopicKind.DLQ, record.partition)]
    assert [letter.value for letter in letters] == [b"poison"]
    attempts: list[Any] = case.world.records(TopicKind.ATTEMPTS)
    assert attempts[-1].verdict is Verdict.DEAD


def test_expiry_anywhere_in_the_queue_is_told_within_100_ms(case: Case) -> None:
    case.report(limit=0)
    case.run(100)
    early, wall = case.submit(), case.world.now.wall_ms
    late = case.submit(start_by_ms=wall + 500, priority=-5)
    case.run(525)
    owner = case.owner.core
    assert owner is not None
    assert owner.state.tracked[late.id].phase.name == "ENDING"
    case.run(1_000)
    assert case.results() == [(late.id, Status.EXPIRED, FailureKind.QUEUE_TIMEOUT)]
    assert early.id in owner.state.tracked


def test_a_held_request_past_its_deadline_is_cancelled_at_its_worker(case: Case) -> None:
    case.submit(finish_by_ms=case.world.now.wall_ms + 400)
    case.run(1_000)
    assert [command.reason for command in case.commands(Cancel)] == [CancelReason.DEADLINE]


@pytest.mark.parametrize(
    ("value", "more", "kind"),
    [
        (None, {}, FailureKind.EMPTY_RECORD),
        (b"", {}, FailureKind.EMPTY_RECORD),
        (b"{}", {"tier": "interactive"}, FailureKind.LYING_RECORD),
    ],
)
def test_a_record_that_is_empty_or_lies_is_dead_lettered_and_told(
    case: Case, value: bytes | None, more: dict[str, str], kind: FailureKind
) -> None:
    record = case.submit(value, **more)
    case.run(1_000)
    assert case.results() == [(record.id, Status.DEAD_LETTERED, kind)]
    assert case.commands(Run) == []
    letters: list[Any] = case.world.records(TopicKind.DLQ)
    assert [(letter.reason, letter.id) for letter in letters] == [(kind, record.id)]


def test_an_undecodable_record_is_kept_whole_and_holds_up_nobody(case: Case) -> None:
    where = place(TopicKind.REQUESTS, partition_of("a", 2), "batch")
    case.world.append(Message(where.topic, where.partition, b"junk", ((HEADER, b"{"), ("other", b"kept"))))
    record = case.submit()
    case.run(1_500)
    assert [run.request.id for run in case.commands(Run)] == [record.id]
    letter = case.world.logs[place(TopicKind.DLQ, where.partition)][0]
    assert letter.value == b"junk"
    assert dict(letter.headers)["headrace-original"] == b"{"
    assert dict(letter.headers)["other"] == b"kept"


def test_a_duplicate_is_finished_at_once_and_runs_once(case: Case) -> None:
    record = case.submit()
    case.submit(id=record.id)
    case.run(500)
    case.answer(case.commands(Run)[0], Verdict.DONE, status=Status.SUCCEEDED)
    case.run(300)
    case.submit(id=record.id)
    case.run(1_500)
    assert len(case.commands(Run)) == 1
    owner = case.owner.core
    assert owner is not None
    assert (
        owner.state.partitions.by_place[place(TopicKind.REQUESTS, record.partition, "batch")].finished.prefix
        == 3
    )


def test_a_late_result_finishes_the_request_and_stops_the_attempt_that_runs(case: Case) -> None:
    case.submit()
    case.run(300)
    first = case.commands(Run)[0]
    owner = case.owner.core
    assert owner is not None
    case.answer(first, Verdict.RETRY_AT, started=False)
    case.run(300)
    second = case.commands(Run)[1]
    assert second.attempts == 1, "an attempt that never started uses up nothing"
    case.answer(first, Verdict.DONE, status=Status.SUCCEEDED)
    case.run(300)
    assert [(c.attempt, c.reason) for c in case.commands(Cancel)] == [
        (second.attempt, CancelReason.SUPERSEDED)
    ]
    assert len(owner.state.held) == 0


def test_a_full_window_pauses_its_partition_and_is_resumed_when_it_empties(case: Case) -> None:
    case.report(limit=0)
    for _ in range(20):
        case.submit()
    case.run(500)
    owner = case.owner.core
    assert owner is not None
    assert len(owner.state.tracked) >= 6
    assert owner.state.partitions.paused() == {place(TopicKind.REQUESTS, partition_of("a", 2), "batch")}
    states: list[Any] = [
        decode(TopicKind.QUEUE_STATE, r.header) for r in case.world.logs[place(TopicKind.QUEUE_STATE)]
    ]
    last = [state for state in states if isinstance(state, QueueState) and state.tier == "batch"]
    case.report(limit=20)
    case.run(3_000)
    assert last
    assert len(case.commands(Run)) == 20
