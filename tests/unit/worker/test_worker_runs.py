"""What a worker does with one `run`: once, within its limit, to an outcome that is acknowledged before it is forgotten."""

import pytest

from headrace.contracts.commands import CancelReason
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.reports import Report
from headrace.contracts.values import Failure
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.protocol.inputs import Written
from headrace.inference_worker.protocol.outputs import (
    SendAttempt,
    SendResult,
    SendWorker,
    Start,
)
from tests.unit.worker.scripted_world import ANSWER, S, World


def test_an_attempt_that_was_seen_is_not_run_again_even_after_it_ended() -> None:
    world = World().serve()
    attempt = world.run(1)
    world.run(1)
    world.turn()
    world.end(attempt, ANSWER)
    world.turn(4)
    world.run(1)
    world.turn(2)
    assert world.started() == [attempt]


def test_runs_beyond_the_limit_wait_inside_and_are_held_but_not_running() -> None:
    world = World(limit=2).serve()
    attempts = [world.run(n) for n in (1, 2, 3)]
    world.pass_time(1 * S)
    assert world.started() == attempts[:2]
    assert {h.attempt: h.running for h in world.report.held} == dict(
        zip(attempts, [True, True, False], strict=True)
    )
    world.end(attempts[0], ANSWER)
    world.turn(2)
    assert world.started() == attempts


def test_the_attempts_record_is_sent_only_after_the_result_is_acknowledged_and_both_until_then() -> None:
    world = World().serve()
    attempt = world.run(1)
    world.turn()
    world.drops = lambda output: isinstance(output, SendResult)
    world.end(attempt, ANSWER)
    world.pass_time(1 * S)
    assert len(world.seen(SendResult)) >= 3
    assert world.seen(SendAttempt) == []
    world.drops = lambda output: isinstance(output, SendAttempt)
    world.pass_time(1 * S)
    assert len(world.seen(SendAttempt)) >= 3
    assert world.held() == {attempt}  # still held: its outcome isn't in the log
    world.drops = lambda _: False
    world.pass_time(1 * S)
    assert world.held() == set()
    (result,), (record,) = world.records(ResultRecord), world.records(AttemptRecord)
    assert (result.status, record.verdict, record.charge) == (Status.SUCCEEDED, Verdict.DONE, 7)
    assert world.wrote.index(result) < world.wrote.index(record)


def test_a_cancelled_waiting_run_ends_cancelled_without_ever_starting() -> None:
    world = World(limit=1).serve()
    world.run(1)
    waiting = world.run(2)
    world.cancel(waiting, CancelReason.CALLER)
    world.turn(4)
    (result,), (record,) = world.records(ResultRecord), world.records(AttemptRecord)
    assert (result.attempt, result.status, result.http_status) == (waiting, Status.CANCELLED, 499)
    assert (record.verdict, record.started) == (Verdict.DONE, False)
    assert waiting not in world.started()


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (CancelReason.CALLER, Status.CANCELLED),
        (CancelReason.DEADLINE, Status.EXPIRED),
        (CancelReason.SUPERSEDED, None),
        (CancelReason.PREEMPTED, None),
    ],
)
def test_a_cancelled_running_call_is_aborted_and_ends_as_its_reason_says(
    reason: CancelReason, status: Status | None
) -> None:
    world = World().serve()
    attempt = world.run(1)
    world.turn()
    world.cancel(attempt, reason)
    world.turn()
    assert world.aborted() == [attempt]
    world.end(attempt, Outcome(aborted=True, partial=True, body=b'{"half":1}'))
    world.pass_time(1 * S)
    results = world.records(ResultRecord)
    assert [(r.status, r.partial) for r in results] == ([(status, True)] if status else [])
    (record,) = world.records(AttemptRecord)
    assert record.verdict is (Verdict.DONE if status else Verdict.RETRY_AT)
    assert world.held() == set()


def test_a_retryable_failure_goes_back_with_the_backends_retry_after_and_a_final_one_ends() -> None:
    world = World().serve()
    busy, wrong = world.run(1), world.run(2)
    world.turn()
    world.end(busy, Outcome(failure=Failure(kind=FailureKind.BACKEND_OVERLOADED, retry_after_ms=4000)))
    world.end(wrong, Outcome(failure=Failure(kind=FailureKind.INVALID_REQUEST), http_status=422, body=b"{}"))
    at = world.now.wall_ms
    world.turn(4)
    (result,) = world.records(ResultRecord)
    assert (result.attempt, result.status, result.http_status) == (wrong, Status.FAILED, 422)
    (retry,) = [r for r in world.records(AttemptRecord) if r.attempt == busy]
    assert at + 4000 <= retry.retry_ms <= at + 4200


def test_a_run_whose_deadline_passed_expires_before_it_costs_anything() -> None:
    world = World().serve()
    world.run(1, finish_by_ms=world.now.wall_ms)
    world.turn(4)
    (result,) = world.records(ResultRecord)
    assert (result.status, result.failure.kind) == (Status.EXPIRED, FailureKind.DEADLINE_PASSED)
    assert world.started() == []


def test_a_result_too_large_for_the_log_ends_with_a_sentence_instead() -> None:
    world = World().serve()
    attempt = world.run(1)
    world.turn()
    world.drops = lambda output: isinstance(output, SendResult)
    world.end(attempt, ANSWER)
    world.turn()
    refused = world.seen(SendResult)[-1]
    assert isinstance(refused, SendResult)
    world._inputs = [Written(refused.token, acknowledged=False, too_large=True)]
    world.drops = lambda _: False
    world.turn(4)
    (result,) = world.records(ResultRecord)
    assert (result.status, result.failure.kind) == (Status.FAILED, FailureKind.ANSWER_TOO_LARGE)
    assert result.payload.size == 0


def test_started_work_is_what_the_command_carried() -> None:
    world = World().serve()
    attempt = world.run(1)
    world.turn()
    (start,) = world.seen(Start)
    assert isinstance(start, Start)
    assert (start.work.run.attempt, start.work.value) == (attempt, b"{}")
    assert attempt == AttemptId(1, 1)


def test_a_trial_is_reported_and_the_report_acknowledged_before_it_is_started() -> None:
    world = World().serve()
    world.drops = lambda output: isinstance(output, SendWorker)
    attempt = world.run(1, trial=1)
    world.pass_time(1 * S)
    assert world.started() == [], (
        "were it to kill this worker, its owner wouldn't know that it had been started"
    )
    world.drops = lambda _: False
    world.pass_time(1 * S)
    assert world.started() == [attempt]
    [first, *_] = [report for report in world.records(Report) if report.held]
    assert [(held.attempt, held.running, held.trial) for held in first.held] == [(attempt, False, 1)]
    world.end(attempt, ANSWER)
    world.turn(4)
    assert [record.trial for record in world.records(AttemptRecord)] == [1]
