"""A pool changes hands: given away by an order, left by its owner, or taken by somebody of a greater epoch."""

from dataclasses import replace

import pytest

from headrace.contracts.checkpoints import Ownership
from headrace.contracts.codec import decode
from headrace.contracts.commands import Run
from headrace.contracts.control import MovePool
from headrace.contracts.ids import AttemptId
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.topics import TopicKind
from tests.support.scheduler.case import Case
from tests.support.scheduler.orders import order, orders_passed
from tests.support.scheduler.pure import place


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
    case.core.leave()
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


def test_an_attempt_of_a_greater_epoch_than_state_knows_stops_the_pool(case: Case) -> None:
    case.submit()
    case.run(300)
    case.answer(case.commands(Run)[0], Verdict.RETRY_AT, attempt=AttemptId(9, 1))
    case.run(5_000)
    assert case.owner.stopped is not None
