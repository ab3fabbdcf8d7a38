"""An operator's new priority moves what it means inside its tenant alone, wherever that is kept, whoever owns the pool."""

from fractions import Fraction
from typing import Any

import pytest

from headrace.bus.messages import message_of
from headrace.contracts.checkpoints import Positions
from headrace.contracts.codec import decode
from headrace.contracts.commands import Run
from headrace.contracts.control import Query, Reprioritise
from headrace.contracts.failures import FailureKind
from headrace.contracts.observations import DeadLetter
from headrace.contracts.outcomes import Verdict
from headrace.contracts.replies import Answer
from headrace.contracts.requests import RequestRecord
from headrace.contracts.selections import Find, Found, Selection
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Usage
from headrace.scheduler.core import reprioritising
from headrace.scheduler.decisions.pick_next import with_priority
from headrace.scheduler.state.priority_orders import MOST_ORDERS, PriorityOrders
from headrace.scheduler.state.tracked import Phase
from tests.support.scheduler.case import Case
from tests.support.scheduler.flood import Flood
from tests.support.scheduler.orders import ends_now, ordered
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import place
from tests.support.scheduler.queue_alone import UNIT, QueueAlone

USED = Usage(completion_tokens=1)


def reprioritise(case: Case, priority: int, **fields: Any) -> int:
    """An operator's order, of now; where it stands in `control`."""
    selection = Selection(**{"stands_before": ends_now(case), **fields})
    order = Reprioritise(selection=selection, priority=priority)
    return case.world.append(message_of(place(TopicKind.CONTROL), order))


def asked(case: Case, priority: int, **fields: Any) -> Found:
    """What the owner says of what fits."""
    before = len(case.world.records(TopicKind.REPLIES))
    find = Find(selection=Selection(**fields), most=200, priority=priority)
    case.world.append(message_of(place(TopicKind.CONTROL), Query(id="n", nonce="n", gateway=0, find=find)))
    case.run(600)
    (told,) = case.world.records(TopicKind.REPLIES)[before:]
    assert isinstance(told, Answer)
    assert told.found is not None
    return told.found


def ran(case: Case) -> list[str]:
    return [run.request.id for run in case.commands(Run)]


def one_by_one(case: Flood, count: int) -> list[str]:
    """Who runs next, each when the one before has ended."""
    case.limit = 1
    found: list[str] = []
    for _ in range(count):
        case.run()
        run = case.commands(Run)[-1]
        found.append(run.request.id)
        case.finish(run)
    return found


def ids(records: list[RequestRecord]) -> list[str]:
    return [record.id for record in records]


@pytest.mark.parametrize("looks", [1, 3, 500])
def test_what_it_means_goes_before_or_after_its_tenants_own_spilled_or_not(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    monkeypatch.setattr(reprioritising, "LOOKS", looks)
    case = Flood()
    made = [case.submit(tenant="a") for _ in range(10)]
    case.run()
    assert case.spilled > 0
    reprioritise(case, 5, id_prefix=made[-1].id)
    reprioritise(case, -5, id_prefix=made[0].id)
    case.run(1_000)
    assert one_by_one(case, 10) == ids([made[9], *made[1:9], made[0]])


def test_what_came_later_is_not_meant_and_another_tenant_feels_nothing() -> None:
    case = Flood()
    first, other = case.submit(), case.submit(tenant="b")
    reprioritise(case, 5, tenant="a")
    second = case.submit()
    case.run(1_000)
    assert asked(case, 5, tenant="a").of_other_priority == 1
    found = {each.id: each.priority for each in asked(case, 0).requests}
    assert found == {first.id: 5, second.id: 0, other.id: 0}


def test_a_successor_gives_what_it_reads_again_the_same_priority_though_the_order_is_passed() -> None:
    case = Flood()
    made = [case.submit() for _ in range(10)]
    case.run()
    reprioritise(case, 5, id_prefix=made[-1].id)
    reprioritise(case, 7, id_prefix=made[-1].id)
    reprioritise(case, 9, id_prefix=made[4].id)
    case.run(2_500)
    records = [decode(TopicKind.STATE, r.header) for r in case.world.logs[place(TopicKind.STATE)]]
    read = [record.control for record in records if isinstance(record, Positions)][-1]
    assert read == len(case.world.logs[place(TopicKind.CONTROL)])
    case.owner.core, case.epoch = None, 2
    case.owner = SimScheduler(case.world, 0)
    newer = case.submit()
    case.run(6_000)
    assert {each.id: each.priority for each in asked(case, 7).requests} == {
        **dict.fromkeys(ids([*made, newer]), 0), made[-1].id: 7, made[4].id: 9
    }  # fmt: skip
    assert one_by_one(case, 3) == ids([made[4], made[-1], made[0]])


def test_one_that_dies_before_its_checkpoint_leaves_the_order_to_the_next() -> None:
    case = Flood()
    made = [case.submit() for _ in range(4)]
    case.run(1_000)
    case.world.out_until[place(TopicKind.STATE)] = case.world.now_ms + 4_000
    reprioritise(case, 5, id_prefix=made[-1].id)
    case.run(1_500)
    case.owner.core, case.epoch = None, 2
    case.owner = SimScheduler(case.world, 0)
    newer = case.submit()
    case.run(9_000)
    found = asked(case, 5)
    assert {each.id: each.priority for each in found.requests} == {
        **dict.fromkeys(ids([*made, newer]), 0),
        made[-1].id: 5,
    }


def test_what_stands_unread_behind_a_full_window_gets_it_as_it_is_read() -> None:
    case = Flood()
    unread = case.submit()
    case.owner.stalled[place(TopicKind.REQUESTS, unread.partition, "batch")] = case.world.now_ms + 2_000
    reprioritise(case, 5, tenant="a")
    case.run(1_000)
    assert asked(case, 5).queued == 0
    case.run(2_000)
    assert [each.priority for each in asked(case, 5).requests] == [5]


def test_what_runs_has_it_when_it_waits_again() -> None:
    case = Flood(limit=1)
    first = case.submit()
    case.run()
    later = [case.submit() for _ in range(2)]
    case.run()
    reprioritise(case, -5, id_prefix=first.id)
    case.run()
    (run,) = case.commands(Run)
    case.done.add(run.request.id)
    case.answer(run, Verdict.RETRY_AT, started=False)
    case.run(3_000)
    for number in range(1, 3):
        case.finish(case.commands(Run)[number])
        case.run()
    assert ran(case)[:4] == ids([first, *later, first])


def test_a_checkpoint_keeps_an_order_until_all_that_it_means_has_ended_and_no_longer() -> None:
    case = Flood(limit=1)
    first = case.submit()
    case.run()
    reprioritise(case, 5, tenant="a")
    case.run(2_500)
    assert len(case.core.state.priority_orders.standing) == 1
    case.submit()
    case.run(2_500)
    case.finish(case.commands(Run)[0])
    case.run(4_000)
    assert first.id not in case.core.state.tracked
    assert not case.core.state.priority_orders
    case.owner.core, case.epoch = None, 2
    case.owner = SimScheduler(case.world, 0)
    case.run(5_000)
    assert not case.core.state.priority_orders


def test_an_order_that_does_not_say_before_which_offsets_is_taken_out() -> None:
    case = Flood()
    case.submit()
    reprioritise(case, 5, stands_before=None)
    case.run(1_500)
    (letter,) = case.world.records(TopicKind.DLQ)
    assert isinstance(letter, DeadLetter)
    assert letter.reason is FailureKind.LYING_RECORD
    assert asked(case, 5).of_other_priority == 1


def test_more_orders_than_are_kept_are_refused_and_one_of_the_same_filters_takes_anothers_place() -> None:
    orders = PriorityOrders()
    for number in range(MOST_ORDERS):
        assert orders.keep(ordered(number, 1, tenant=f"t{number}")) == []
    assert orders.keep(ordered(1_000, 1, tenant="more")) is None
    assert orders.keep(ordered(1_001, 2, tenant="t7")) == [7]
    assert len(orders.standing) == MOST_ORDERS


def test_a_request_that_is_spilled_keeps_its_new_place_when_its_payload_comes() -> None:
    """The record that is read again says its own priority still."""
    case = Flood()
    made = [case.submit(priority=1) for _ in range(10)]
    case.run()
    reprioritise(case, -3, tenant="a")
    case.run(1_000)
    newer = case.submit()
    case.run()
    assert one_by_one(case, 11) == ids([newer, *made])


def test_shares_of_tenants_are_what_they_were() -> None:
    """Two runs of the same requests, one with new priorities: who is served when is the same."""
    served = []
    for changed in (False, True):
        run = QueueAlone(1, {"f": 2, "g": 1}, {"t": Fraction(1)})
        made = [run.put(name, UNIT) for _ in range(30) for name in "fg"]
        order = list[str]()
        while (attempt := run.dispatch()) is not None:
            order.append(attempt.whose[1])
            run.end(attempt, UNIT)
            for each in made[:: 7 if changed else 1_000]:
                if each.phase is Phase.WAITING:
                    run.queue.reorder(each, with_priority(each.order, len(order)))
        served.append(order)
    assert served[0] == served[1]
