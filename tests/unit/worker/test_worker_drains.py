"""A worker that is drained or stopped hands back what waits, finishes what runs, and says goodbye."""

from headrace.contracts.commands import Buried, Drain, Undrain
from headrace.contracts.failures import FailureKind
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.reports import Gone, Report
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.protocol.inputs import StopAsked
from tests.unit.worker.scripted_world import ANSWER, S, World


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
