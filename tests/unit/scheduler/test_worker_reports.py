"""What workers report, and records of any log that can't be read or lie, as the core takes them."""

from typing import Any

import pytest

from headrace.bus.messages import Message, message_of
from headrace.contracts.checkpoints import Positions
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.commands import Buried, Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import boot_id
from headrace.contracts.outcomes import Verdict
from headrace.contracts.reports import Report
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import WALL, place


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
    assert not case.core.state.unburied


def test_a_report_of_a_lane_that_isnt_there_is_dead_lettered_and_gets_no_work(case: Case) -> None:
    report = Report(worker="x", boot=BOOT, epoch=1, lane=3, position=0, limit=4)
    case.world.append(message_of(place(TopicKind.WORKERS), report))
    case.submit()
    case.run(1_000)
    assert list(case.core.state.workers.live) == ["w"]
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
            told += [notice.event for notice in case.core.state.out.notices if "one name" in notice.event]
    assert len(told) == 1
