"""What an operator freezes waits and isn't lost: nothing of it is released, it expires, and it has no credit afterwards."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.bus.messages import message_of
from headrace.contracts.checkpoints import Positions
from headrace.contracts.codec import decode
from headrace.contracts.commands import Cancel, Run
from headrace.contracts.control import Freeze, Thaw
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import QueueState
from headrace.contracts.outcomes import Verdict
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Usage
from headrace.scheduler.core import orders
from headrace.scheduler.state import frozen
from headrace.scheduler.state.frozen import Frozen, Hold
from tests.support.scheduler.case import Case
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import place, policy

USED = Usage(completion_tokens=30)


def order(case: Case, record: Freeze | Thaw) -> None:
    case.world.append(message_of(place(TopicKind.CONTROL), record))


@pytest.fixture
def case() -> Case:
    return served()


def served() -> Case:
    """A pool with a worker of four slots."""
    made = Case()
    made.run()
    made.report()
    made.run(100)
    return made


def ran(case: Case) -> list[str]:
    return [run.request.id for run in case.commands(Run)]


@pytest.mark.parametrize(
    ("holds", "held"),
    [
        ([], set()),
        ([Hold("x", "a")], {("x", "a")}),
        ([Hold(None, "a")], {("x", "a"), ("y", "a")}),
        ([Hold("x", None)], {("x", "a"), ("x", "b")}),
        ([Hold(None, None)], {("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")}),
    ],
)
def test_a_hold_holds_back_whom_it_names(holds: list[Hold], held: set[tuple[str, str]]) -> None:
    made = Frozen(holds)
    assert {(tier, tenant) for tier in "xy" for tenant in "ab" if made.has(tier, tenant)} == held
    assert made.tenants_of("x") == (("a",) if any(hold.tenant for hold in holds) else ())


@pytest.mark.parametrize(
    "fields", [{"tenant": "a"}, {"tier": "batch"}, {"tier": "batch", "tenant": "a"}, {}], ids=str
)
def test_nothing_is_released_of_what_is_frozen_until_it_is_thawed(case: Case, fields: dict[str, str]) -> None:
    order(case, Freeze(**fields))
    case.run()
    held = case.submit()
    other = case.submit(tenant="b", into="interactive")
    case.run(2_000)
    assert ran(case) == ([other.id] if fields else [])
    states = [decode(TopicKind.QUEUE_STATE, r.header) for r in case.world.logs[place(TopicKind.QUEUE_STATE)]]
    told = [state for state in states if isinstance(state, QueueState) and state.tier == "batch"][-1]
    assert (told.depth, told.frozen_depth) == (1, 1)
    assert told.frozen is ("tenant" not in fields)
    assert told.frozen_tenants == (("a",) if "tenant" in fields else ())
    case.report()
    order(case, Thaw(**fields))
    case.run(1_000)
    assert held.id in ran(case)


def test_a_thaw_of_something_else_thaws_nothing(case: Case) -> None:
    order(case, Freeze(tenant="a"))
    order(case, Thaw(tier="batch", tenant="a"))
    case.submit()
    case.run(1_000)
    assert ran(case) == []


def test_what_is_frozen_expires_as_others_do(case: Case) -> None:
    order(case, Freeze(tenant="a"))
    late = case.submit(start_by_ms=case.world.now.wall_ms + 500)
    case.run(1_500)
    assert case.results() == [(late.id, Status.EXPIRED, FailureKind.QUEUE_TIMEOUT)]


def test_a_successor_holds_back_what_its_predecessor_was_told_to_though_the_order_is_passed() -> None:
    case = served()
    order(case, Freeze(tenant="a"))
    case.run(2_500)
    records = [decode(TopicKind.STATE, r.header) for r in case.world.logs[place(TopicKind.STATE)]]
    assert [record.control for record in records if isinstance(record, Positions)][-1] == len(
        case.world.logs[place(TopicKind.CONTROL)]
    )
    case.owner = SimScheduler(case.world, 0)
    case.submit()
    for _ in range(8):
        case.run(500)
        case.report(epoch=2)
    assert case.owner.core is not None
    assert case.owner.core.state.open
    assert ran(case) == []
    order(case, Thaw(tenant="a"))
    case.run(2_500)
    assert len(ran(case)) == 1
    case.owner = SimScheduler(case.world, 0)
    case.run(5_000)
    assert case.owner.core is not None
    assert not case.owner.core.state.queue.frozen


def test_who_was_frozen_has_no_credit_for_that_time() -> None:
    """Ten of b run meanwhile; after the thaw, both have their part of what is released."""
    case = served()
    order(case, Freeze(tenant="a"))
    frozen_ones = {case.submit().id for _ in range(5)}
    for _ in range(10):
        case.submit(tenant="b")
    for number in range(10):
        case.report(limit=1)
        case.run(500)
        run = case.commands(Run)[number]
        assert run.request.tenant == "b"
        if number == 9:
            for _ in range(5):
                case.submit(tenant="b")
            order(case, Thaw(tenant="a"))
            case.run(300)
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=USED)
    for number in range(10, 15):
        case.report(limit=1)
        case.run(500)
        case.answer(case.commands(Run)[number], Verdict.DONE, status=Status.SUCCEEDED, usage=USED)
    after = ran(case)[10:15]
    assert 1 <= len(set(after) & frozen_ones) <= 3, "b weighs three times as much as a"


def test_nothing_gives_way_for_what_is_frozen() -> None:
    case = Case()
    case.owner.setting = replace(case.owner.setting, policy=policy(headroom_percent=50))
    case.run()
    case.report(limit=2)
    case.run(100)
    for _ in range(2):
        case.submit()
    case.run(1_000)
    order(case, Freeze(tier="interactive"))
    case.run(300)
    case.submit(into="interactive")
    for _ in range(4):
        case.run(500)
    assert case.commands(Cancel) == []


def test_more_holds_than_a_checkpoint_takes_are_refused(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "MOST_HOLDS", 2)
    assert frozen.MOST_HOLDS == 1_000
    for tenant in "abc":
        order(case, Freeze(tenant=tenant))
    case.run(500)
    core: Any = case.owner.core
    assert core.state.queue.frozen.holds == {Hold(None, "a"), Hold(None, "b")}
