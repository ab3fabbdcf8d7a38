from datetime import timedelta

import pytest

from headrace.contracts.commands import Buried, CancelReason, Drain, Fence, Undrain
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.reports import Gone, Report
from headrace.contracts.values import Failure
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.protocol.inputs import BackendSeen, LaneLost, StopAsked, Work, Written
from headrace.inference_worker.protocol.outputs import (
    FindLane,
    FollowLane,
    Output,
    ReadEpoch,
    SendAttempt,
    SendPing,
    SendResult,
    SendWorker,
    Start,
)
from tests.unit.worker.scripted_world import World, kinds, run_of

S = timedelta(seconds=1)
ANSWER = Outcome(http_status=200, body=b'{"answer":1}')


def test_it_obeys_the_lane_only_after_its_registration_is_acknowledged_and_the_epoch_read() -> None:
    world = World(epoch=7)
    world.drops = lambda _: True
    world.pass_time(1 * S)
    assert kinds(world.done) == [FindLane]  # the report isn't acknowledged: nothing more happens
    world.drops = lambda _: False
    world.pass_time(1 * S)
    assert kinds(world.done) == [FindLane, ReadEpoch, FollowLane]
    assert (world.report.epoch, world.report.lane, world.report.limit) == (7, 4, 2)


def test_it_reports_twice_a_second_with_its_position_and_what_it_holds() -> None:
    world = World().serve()
    before = len(world.records(Report))
    attempt = world.run(1)
    world.pass_time(5 * S)
    assert 9 <= len(world.records(Report)) - before <= 11
    assert world.held() == {attempt}
    assert world.report.position >= world.position - 1


def test_a_fence_is_answered_at_once_with_the_new_epoch_and_a_command_of_the_old_one_is_dropped() -> None:
    world = World().serve()
    world.turn(2)
    world.send(Fence(epoch=5))
    world.run(1, epoch=4)
    world.turn(2)
    assert world.report.epoch == 5
    assert world.report.position == world.position
    assert world.started() == []
    accepted = world.run(2, epoch=5)
    world.turn()
    assert world.started() == [accepted]


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


def test_a_command_for_another_boot_is_not_obeyed() -> None:
    world = World().serve()
    world.send(Work(run_of(1, boot="f" * 32)))
    world.turn(2)
    assert world.started() == []


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


def _loses_workers(output: Output) -> bool:
    return isinstance(output, SendWorker)


def test_a_lapsed_worker_hands_a_run_back_unstarted_and_goes_on_with_what_it_holds() -> None:
    world = World().serve()
    first = world.run(1)
    world.turn()
    world.drops = _loses_workers
    world.pass_time(3 * S)
    second = world.run(2)
    world.turn(3)
    (record,) = world.records(AttemptRecord)
    assert (record.attempt, record.verdict, record.started) == (second, Verdict.RETRY_AT, False)
    assert record.failure.kind is FailureKind.WORKER_NOT_LEASED
    world.end(first, ANSWER)
    world.turn(3)
    assert [r.attempt for r in world.records(ResultRecord)] == [first]


def test_a_worker_that_was_paused_starts_nothing_that_lay_in_its_lane_before_its_next_ping() -> None:
    world = World().serve()
    world.pass_time(2 * S)
    world.pings_return = False
    world.boot_ms += 10_000  # it stood still, and may have been buried meanwhile
    world.turn(4)
    assert world.core.boot is not None
    assert not world.core.boot.lease.lapsed(world.now)
    old = world.run(1)
    world.turn(3)
    (record,) = world.records(AttemptRecord)
    assert (record.attempt, record.verdict, record.started) == (old, Verdict.RETRY_AT, False)
    world.pings_return = True
    world.pass_time(2 * S)
    fresh = world.run(2)
    world.turn(2)
    assert world.started() == [fresh]


def test_a_lapsed_worker_hands_a_run_back_at_once_also_when_all_its_slots_are_taken() -> None:
    world = World(limit=1).serve()
    world.run(1)
    world.turn()
    world.drops = _loses_workers
    world.pass_time(3 * S)
    second = world.run(2)
    world.turn(3)
    assert [r.attempt for r in world.records(AttemptRecord)] == [second]


@pytest.mark.parametrize("how", ["buried", "silent", "deaf", "lost"])
def test_a_boot_that_is_buried_silent_or_deaf_aborts_everything_and_registers_anew(how: str) -> None:
    world = World().serve()
    old = world.boot
    attempt = world.run(1)
    world.turn()
    if how == "buried":
        world.send(Buried(epoch=1, boot=world.boot))
        world.turn()
    elif how == "silent":
        world.drops = _loses_workers
        world.pass_time(31 * S)
        world.drops = lambda _: False
    elif how == "deaf":
        world.pings_return = False
        world.pass_time(7 * S)
        world.pings_return = True
    else:
        world.give(LaneLost(world.boot))
    world.pass_time(2 * S)
    assert world.abort_all_seen()
    assert world.boot > old
    assert (world.report.boot, world.held()) == (world.boot, set())
    world.end(attempt, ANSWER)  # a late end of the old boot's call writes nothing
    world.turn(3)
    assert world.records(ResultRecord) == []


def test_a_burial_by_an_older_owner_is_not_believed() -> None:
    world = World(epoch=3).serve()
    world.send(Buried(epoch=2, boot=world.boot))
    world.pass_time(1 * S)
    assert not world.abort_all_seen()


def test_an_unacknowledged_ping_and_a_paused_process_do_not_blame_the_lane() -> None:
    world = World().serve()
    world.drops = lambda output: isinstance(output, SendPing)
    world.pass_time(10 * S)
    assert not world.abort_all_seen()
    world.drops, world.pings_return = (lambda _: False), False
    world.pass_time(2 * S)
    world.boot_ms += 20_000  # the whole process stood still
    world.turn()
    assert not world.abort_all_seen()


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


def test_a_stopping_worker_hands_back_what_waits_finishes_what_runs_says_goodbye_and_ends() -> None:
    world = World(limit=1).serve()
    running, waiting = world.run(1), world.run(2)
    world.turn()
    world.give(StopAsked())
    world.turn(2)
    late = world.run(3)
    world.pass_time(1 * S)
    assert world.report.draining
    handed_back = {(r.attempt, r.started, r.failure.kind) for r in world.records(AttemptRecord)}
    assert handed_back == {(n, False, FailureKind.WORKER_DRAINED) for n in (waiting, late)}
    assert not world.finished()
    world.end(running, ANSWER)
    world.turn(6)
    assert isinstance(world.wrote[-1], Gone)
    assert world.finished()
    assert [r.attempt for r in world.records(ResultRecord)] == [running]


def test_after_the_grace_a_drained_worker_hands_back_what_runs_and_stays_visibly_idle() -> None:
    world = World().serve()
    running = world.run(1)
    world.turn()
    world.send(Drain(epoch=1, boot=world.boot))
    world.pass_time(29 * S)
    assert world.aborted() == []
    world.pass_time(2 * S)
    assert world.aborted() == [running]
    world.end(running, Outcome(aborted=True))
    world.turn(6)
    (record,) = world.records(AttemptRecord)
    assert (record.verdict, record.started) == (Verdict.RETRY_AT, True)
    world.pass_time(60 * S)
    assert (world.report.draining, world.held(), world.core.ready) == (True, set(), False)
    assert world.records(Gone) == []


def test_a_drained_worker_takes_work_again_once_it_is_undrained() -> None:
    world = World().serve()
    world.send(Drain(epoch=1, boot=world.boot))
    world.turn(2)
    handed_back = world.run(1)
    world.turn(2)
    world.send(Undrain(epoch=1, boot=world.boot))
    world.turn(3)
    assert not world.report.draining
    assert world.core.ready
    accepted = world.run(2)
    world.pass_time(60 * S)
    assert world.started() == [accepted]
    assert [r.attempt for r in world.records(AttemptRecord)] == [handed_back]
    assert world.aborted() == []  # the grace of a drain that was undone doesn't count


def test_a_drained_worker_that_must_register_anew_stays_drained() -> None:
    world = World().serve()
    world.send(Drain(epoch=1, boot=world.boot))
    world.turn(2)
    world.send(Buried(epoch=1, boot=world.boot))
    world.turn(6)
    assert next(r.draining for r in world.records(Report) if r.boot == world.boot)
    world.run(1)
    world.turn(3)
    assert world.started() == []


def test_a_drained_worker_that_is_stopped_has_its_whole_grace_and_says_goodbye() -> None:
    world = World().serve()
    world.send(Drain(epoch=1, boot=world.boot))
    world.pass_time(100 * S)
    world.give(StopAsked())
    world.turn()
    world.send(Undrain(epoch=1, boot=world.boot))  # too late: the process ends
    world.turn(4)
    assert isinstance(world.wrote[-1], Gone)
    assert world.finished()


def test_a_stop_without_a_broker_ends_all_the_same() -> None:
    world = World().serve()
    world.run(1)
    world.turn()
    world.drops = lambda _: True
    world.give(StopAsked())
    world.pass_time(40 * S)
    assert world.finished()


def test_a_backend_that_is_gone_shows_in_the_next_report() -> None:
    world = World().serve()
    attempt = world.run(1)
    world.turn()
    world.end(attempt, Outcome(failure=Failure(kind=FailureKind.BACKEND_UNAVAILABLE), started=False))
    world.turn(3)
    assert (world.report.healthy, world.core.ready) == (False, False)
    world.give(BackendSeen(True))
    world.turn(3)
    assert (world.report.healthy, world.core.ready) == (True, True)


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


def test_a_process_that_gives_its_boot_up_says_so_in_the_next_one() -> None:
    world = World().serve()
    assert world.report.instead_of is None
    given_up = world.boot
    world.send(Buried(epoch=1, boot=given_up))
    world.turn(8)
    assert world.report.boot != given_up
    assert world.report.instead_of == given_up
