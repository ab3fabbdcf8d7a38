"""Single rules of the core, on a world in which nothing goes wrong by chance."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.bus.messages import Message, message_of
from headrace.contracts.checkpoints import Ownership, Positions
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.commands import Buried, Cancel, CancelReason, Drain, Run, Undrain
from headrace.contracts.control import DrainWorker, MovePool, UndrainWorker
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId, boot_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import QueueState
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.reports import Report
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Usage
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import WALL, place


@pytest.fixture
def case() -> Case:
    made = Case()
    made.run()
    made.report()
    made.run(100)
    return made


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


def orders_passed(case: Case) -> int:
    """Before which word in `control` a successor would read on, behind the barrier of the first owner's gate."""
    records = [decode(TopicKind.STATE, r.header) for r in case.world.logs[place(TopicKind.STATE)]]
    return [record.control for record in records if isinstance(record, Positions)][-1] - 1


def order(case: Case, record: DrainWorker | UndrainWorker | MovePool) -> None:
    """An operator's word."""
    case.world.append(message_of(place(TopicKind.CONTROL), record))


def test_an_operator_may_drain_a_worker_and_no_checkpoint_passes_the_order_before_it_is_obeyed(
    case: Case,
) -> None:
    order(case, DrainWorker(worker="w"))
    case.run(3_000)
    assert len(case.commands(Drain)) >= 2  # again and again, until it says that it drains
    assert orders_passed(case) == 0
    case.report(draining=True)
    case.run(2_000)
    assert orders_passed(case) == 1
    told = len(case.commands(Drain))
    case.report(draining=True)
    case.submit()
    case.run(2_000)
    assert len(case.commands(Drain)) == told
    assert case.commands(Run) == []


def test_a_drain_that_its_owner_died_over_is_given_by_the_next_one(case: Case) -> None:
    order(case, DrainWorker(worker="w"))
    case.run(2_000)
    before = len(case.commands(Drain))
    case.owner = SimScheduler(case.world, 0)
    for _ in range(8):
        case.run(500)
        case.report(epoch=2)
    assert {drain.epoch for drain in case.commands(Drain)[before:]} == {2}


def test_a_drained_worker_is_put_back_and_gets_work(case: Case) -> None:
    order(case, DrainWorker(worker="w"))
    case.report(draining=True)
    case.run(1_000)
    order(case, UndrainWorker(worker="w"))
    case.submit()
    case.run(1_000)
    assert len(case.commands(Undrain)) == 1
    assert case.commands(Run) == []
    case.report()
    case.run(1_000)
    assert len(case.commands(Run)) == 1


def test_a_drain_of_a_worker_that_is_not_there_is_told_and_forgotten(case: Case) -> None:
    order(case, DrainWorker(worker="nobody"))
    case.run(2_000)
    assert orders_passed(case) == 1


def ownerships(case: Case) -> list[Ownership]:
    records = [decode(TopicKind.STATE, r.header) for r in case.world.logs[place(TopicKind.STATE)]]
    return [record for record in records if isinstance(record, Ownership)]


def test_a_moved_pool_is_released_to_the_named_one_and_no_successor_reads_the_order_again(case: Case) -> None:
    case.submit()
    case.run()
    order(case, MovePool(to="scheduler1"))
    case.submit()
    case.run(600)
    assert case.owner.core is None
    last = ownerships(case)[-1]
    assert (last.released, last.successor, last.epoch, last.gate_open) == (True, "scheduler1", 1, True)
    assert [one.released for one in ownerships(case)[:-1]] == [False] * (len(ownerships(case)) - 1)
    assert orders_passed(case) == 1
    assert len({one.since_ms for one in ownerships(case)}) == 1


@pytest.mark.parametrize("to", ["scheduler0", "stranger"])
def test_a_pool_is_not_moved_to_where_it_is_or_to_whom_the_settings_do_not_name(to: str) -> None:
    case = Case()
    case.owner.setting = replace(case.owner.setting, replicas=("scheduler0", "scheduler1"))
    case.run()
    order(case, MovePool(to=to))
    case.run(3_000)
    assert case.owner.core is not None
    assert not any(one.released for one in ownerships(case))
    assert orders_passed(case) == 1


def test_the_newest_word_counts_so_a_move_to_where_the_pool_is_withdraws_an_older_one(case: Case) -> None:
    order(case, MovePool(to="scheduler1"))
    order(case, MovePool(to="scheduler0"))
    case.run(3_000)
    assert case.owner.core is not None
    assert not any(one.released for one in ownerships(case))
    assert orders_passed(case) == 2


def test_a_move_that_nobody_obeyed_in_time_is_left_alone(case: Case) -> None:
    case.owner.crash()
    order(case, MovePool(to="scheduler1"))
    case.world.now_ms += 61_000
    case.run(5_000)
    assert case.owner.core is not None
    assert not any(one.released for one in ownerships(case))


def test_an_owner_that_leaves_ends_what_it_has_begun_and_begins_nothing(case: Case) -> None:
    first = case.submit(start_by_ms=case.world.now.wall_ms + 1, value=b"{}")
    case.run(25)
    while not case.world.records(TopicKind.RESULTS):
        case.run(25)
    owner_of(case)
    assert case.owner.core is not None
    case.owner.core.leave()
    case.submit()
    case.run(1_000)
    attempts = [each for each in case.world.records(TopicKind.ATTEMPTS) if isinstance(each, AttemptRecord)]
    assert [attempt.id for attempt in attempts] == [first.id]
    assert case.commands(Run) == []
    assert ownerships(case)[-1].released


def test_a_greater_epoch_than_state_knows_stops_the_pool_with_a_sentence(case: Case) -> None:
    case.report(epoch=9)
    case.run(5_000)
    assert case.owner.stopped is not None
    assert "state topic was lost" in case.owner.stopped


def owner_of(case: Case) -> Any:
    owner = case.owner.core
    assert owner is not None
    return owner


def test_a_worker_whose_clock_was_turned_back_is_served_once_its_greater_boot_is_dead(case: Case) -> None:
    lesser = boot_id(WALL - 3_600_000, bytes(10))
    report = Report(worker="w", boot=lesser, epoch=1, lane=0, position=0, limit=4)
    record = case.submit()
    case.report(limit=0)
    for _ in range(12):
        case.world.append(message_of(place(TopicKind.WORKERS), report))
        case.run(500)
    assert [(run.request.id, run.boot) for run in case.commands(Run)] == [(record.id, lesser)]
    case.report(limit=4)
    case.run(1_000)
    assert [command.boot for command in case.commands(Buried)] == [BOOT]


@pytest.mark.parametrize("kind", [TopicKind.ATTEMPTS, TopicKind.CONTROL, TopicKind.WORKERS])
def test_what_cant_be_read_in_any_log_is_dead_lettered_with_its_bytes_before_a_checkpoint_passes_it(
    case: Case, kind: TopicKind
) -> None:
    where = place(kind)
    case.world.out_until[place(TopicKind.DLQ)] = case.world.now_ms + 3_000
    offset = case.world.append(Message(where.topic, 0, b"junk", ((HEADER, b"[]"),)))
    case.run(2_500)
    states = [decode(TopicKind.STATE, r.header) for r in case.world.logs[place(TopicKind.STATE)]]
    [*_, last] = [state for state in states if isinstance(state, Positions)]
    assert {TopicKind.ATTEMPTS: last.attempts[0], TopicKind.CONTROL: last.control}.get(kind, 0) <= offset
    case.run(2_500)
    letters = case.world.logs[place(TopicKind.DLQ)]
    assert [(letter.value, dict(letter.headers)["headrace-original"]) for letter in letters] == [
        (b"junk", b"[]")
    ]
    assert not owner_of(case).state.unburied


def test_an_attempt_of_a_greater_epoch_than_state_knows_stops_the_pool(case: Case) -> None:
    case.submit()
    case.run(300)
    case.answer(case.commands(Run)[0], Verdict.RETRY_AT, attempt=AttemptId(9, 1))
    case.run(5_000)
    assert case.owner.stopped is not None


def test_a_report_of_a_lane_that_isnt_there_is_dead_lettered_and_gets_no_work(case: Case) -> None:
    report = Report(worker="x", boot=BOOT, epoch=1, lane=3, position=0, limit=4)
    case.world.append(message_of(place(TopicKind.WORKERS), report))
    case.submit()
    case.run(1_000)
    assert list(owner_of(case).state.workers.live) == ["w"]
    assert len(case.commands(Run)) == 1
    letters: list[Any] = case.world.records(TopicKind.DLQ)
    assert [letter.reason for letter in letters] == [FailureKind.LYING_REPORT]


def test_a_new_owner_tells_no_deaths_that_are_history(case: Case) -> None:
    case.run(6_000)
    told: list[str] = []
    case.owner = SimScheduler(case.world, 0)
    for _ in range(240):
        case.run(25)
        core = case.owner.core
        told += [] if core is None else [notice.event for notice in core.state.out.notices]
    assert "gate is open" in told
    assert not [event for event in told if "dead" in event]


@pytest.mark.parametrize("kind", [FailureKind.WORKER_NOT_LEASED, FailureKind.WORKER_DRAINED])
def test_a_worker_that_hands_work_back_gets_none_before_its_next_report(
    case: Case, kind: FailureKind
) -> None:
    record = case.submit()
    case.run(300)
    more = {"started": False, "worker": "w", "boot": BOOT, "failure": Failure(kind=kind)}
    case.answer(case.commands(Run)[0], Verdict.RETRY_AT, **more)
    case.run(500)
    assert len(case.commands(Run)) == 1
    case.report()
    case.run(300)
    assert [run.request.id for run in case.commands(Run)] == 2 * [record.id]


def test_two_workers_of_one_name_are_told_of_once(case: Case) -> None:
    twin = boot_id(WALL + 60_000, bytes(10))
    report = Report(worker="w", boot=twin, epoch=1, lane=1, position=0, limit=4)
    told = []
    for _ in range(10):
        case.world.append(message_of(place(TopicKind.WORKERS), report))
        case.report()
        for _ in range(20):
            case.run(25)
            told += [
                notice.event for notice in owner_of(case).state.out.notices if "one name" in notice.event
            ]
    assert len(told) == 1


def test_a_failed_attempt_whose_record_was_written_again_after_a_takeover_is_booked_once(case: Case) -> None:
    case.submit()
    case.run(300)
    [run] = case.commands(Run)
    failed: dict[str, Any] = {
        "failure": Failure(kind=FailureKind.BACKEND_ERROR), "usage": Usage(completion_tokens=1_000),
        "worker": "w", "boot": BOOT,
    }  # fmt: skip
    case.answer(run, Verdict.RETRY_AT, **failed)
    case.run(2_000)
    settled = owner_of(case).state.accounts.of("batch", "a").settled
    assert settled > 0
    case.owner.crash()
    while case.owner.core is None:
        case.run(25)
    case.report(epoch=2)
    case.run(1_000)
    case.answer(run, Verdict.RETRY_AT, **failed)  # its writer had lost the acknowledgement
    case.run(500)
    assert owner_of(case).state.accounts.of("batch", "a").settled == settled


def test_what_answers_had_of_late_is_what_the_next_is_charged_for(case: Case) -> None:
    unknown: dict[str, Any] = {"max_tokens": None, "prompt_tokens": 0}
    case.report(limit=20)
    for _ in range(20):
        case.submit(**unknown)
    case.run(300)
    assert {run.charge for run in case.commands(Run)} == {256 * 2_000_000}
    for run in case.commands(Run):
        usage = Usage(completion_tokens=7)
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=usage)
    case.submit(**unknown)
    case.run(1_200)
    assert case.commands(Run)[20].charge == 7 * 2_000_000


def test_a_success_of_which_nobody_says_what_it_spent_is_settled_on_its_charge(case: Case) -> None:
    for verdict, status in ((Verdict.DONE, Status.SUCCEEDED), (Verdict.DONE, Status.FAILED)):
        case.submit(prompt_tokens=3)
        case.run(200)
        case.answer(case.commands(Run)[-1], verdict, status=status)
        case.run(300)
    owner = case.owner.core
    assert owner is not None
    assert owner.state.accounts.of("batch", "a").settled == 3 * 1_000_000 + 2_000_000 + 1
