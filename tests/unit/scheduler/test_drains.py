"""An operator drains workers and puts them back: obeyed once, by whoever owns the pool."""

from headrace.contracts.commands import Drain, Run, Undrain
from headrace.contracts.control import DrainWorker, UndrainWorker
from tests.support.scheduler.case import Case
from tests.support.scheduler.orders import order, orders_passed
from tests.support.scheduler.processes import SimScheduler


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
