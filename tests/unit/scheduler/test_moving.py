"""An operator moves what waits to another pool: all that may go, one result each, nothing that came later, whoever dies."""

from typing import Any

import pytest

from headrace.bus.messages import Place, message_of
from headrace.contracts.barriers import Barrier
from headrace.contracts.control import MoveMatching, Query
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import DeadLetter
from headrace.contracts.replies import Answer
from headrace.contracts.requests import RequestRecord
from headrace.contracts.selections import Find, Found, Selection, Stays
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core import carrying_out, needed_from, rerouting
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.pick_next import with_priority
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from tests.support.scheduler.pure import NAMES
from tests.support.scheduler.two_pools import AWAY, HOME, PARTITION, TENANT, ObedientWorker, TwoPools

BEGIN_MS = 1_000
CRASHES = range(BEGIN_MS - 100, BEGIN_MS + 1_500, 75)


def control() -> Place:
    return Place(NAMES.of(TopicKind.CONTROL, pool=HOME), 0)


def move(pools: TwoPools, to: str = AWAY, model: str | None = None, **fields: Any) -> MoveMatching:
    """An operator's order, of now."""
    topic, ends = NAMES.of(TopicKind.REQUESTS, pool=HOME, tier="batch"), dict[int, int]()
    for number in range(2):
        ends[number] = pools.world.append(message_of(Place(topic, number), Barrier()))
    selection = Selection(**{"stands_before": {topic: ends}, **fields})
    order = MoveMatching(selection=selection, to=to, model=model)
    pools.world.append(message_of(control(), order))
    return order


def state_of(pools: TwoPools) -> PoolState:
    core = pools.owners[HOME].core
    assert core is not None
    return core.state


def asked(
    pools: TwoPools, to: str = AWAY, model: str | None = None, selection: Selection | None = None
) -> Found:
    """What the owner at home says of all, or of these."""
    replies = Place(NAMES.of(TopicKind.REPLIES), 0)
    before = len(pools.world.logs[replies])
    find = Find(selection=selection or Selection(), to=to, model=model)
    pools.world.append(message_of(control(), Query(id="n", nonce="n", gateway=0, find=find)))
    pools.run(600)
    (told,) = pools.world.records(TopicKind.REPLIES)[before:]
    assert isinstance(told, Answer)
    assert told.found is not None
    return told.found


def ended_away(pools: TwoPools) -> set[str]:
    return {result.id for result in pools.log(TopicKind.RESULTS, partition=PARTITION) if result.pool == AWAY}


def ids(records: list[RequestRecord]) -> set[str]:
    return {record.id for record in records}


def test_all_that_wait_and_fit_go_and_what_came_later_stays() -> None:
    pools = TwoPools()
    meant, other = [pools.submit() for _ in range(5)], pools.submit(tenant="b", fairness_key="k")
    pools.run(BEGIN_MS)
    assert asked(pools).may_go == 6
    ordered = move(pools, tenant=TENANT)
    later = pools.submit()
    pools.run(4_000)
    assert ended_away(pools) == ids(meant)
    assert all(each.id in state_of(pools).tracked for each in (other, later))
    assert asked(pools).may_go == 2
    assert asked(pools, selection=ordered.selection).moved == 5, "who ordered it is told what came of it"
    assert asked(pools).moved is None, "nobody ordered that"
    pools.world.append(message_of(control(), ordered))
    pools.run(2_000)
    assert asked(pools, selection=ordered.selection).moved == 0, "ordered again, it found nobody"
    assert not state_of(pools).bulk_moves
    assert needed_from.control_to_keep(state_of(pools)) == len(pools.world.logs[control()])


def test_an_owner_that_dies_at_any_step_moves_all_of_them_and_nothing_twice() -> None:
    for at_ms in CRASHES:
        for pool in (HOME, AWAY):
            pools = TwoPools(at_ms)
            meant = [pools.submit() for _ in range(4)]
            pools.run(BEGIN_MS)
            move(pools)
            later = pools.submit()
            pools.run(at_ms - BEGIN_MS)
            pools.owners[pool].crash()
            pools.run(8_000)
            assert (at_ms, pool, ended_away(pools)) == (at_ms, pool, ids(meant))
            assert later.id in state_of(pools).tracked
            pools.workers.append(ObedientWorker(pools.world, HOME))
            pools.settle()
            assert (at_ms, pool, pools.wrong([*meant, later])) == (at_ms, pool, [])
            assert all(ends == [Status.SUCCEEDED] for ends in pools.results().values())


def test_an_order_waits_for_what_stands_unread_and_for_room() -> None:
    """Room for two at a time; no checkpoint passes the order meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rerouting, "MOST_REROUTES", 2)
        patch.setattr(carrying_out, "_AT_ONCE", 1)
        pools = TwoPools()
        pools.run(BEGIN_MS)
        place = Place(NAMES.of(TopicKind.REQUESTS, pool=HOME, tier="batch"), PARTITION)
        pools.owners[HOME].stalled[place] = pools.world.now_ms + 3_000
        meant = [pools.submit() for _ in range(7)]
        move(pools)
        stands = len(pools.world.logs[control()]) - 1
        pools.run(2_000)
        assert needed_from.control_to_keep(state_of(pools)) == stands
        pools.run(10_000)
        assert ended_away(pools) == ids(meant)
        assert not state_of(pools).bulk_moves


def test_what_is_spilled_goes_with_its_payload() -> None:
    pools = TwoPools()
    bounds = SpillBounds(records=2, size=1_000_000, reach=1, run=5, gap=1, under_way=100)
    object.__setattr__(pools.owners[HOME].setting, "spill", bounds)
    meant = [pools.submit() for _ in range(9)]
    pools.run(BEGIN_MS)
    assert len(state_of(pools).spilled) > 0
    assert asked(pools).may_go == 9
    assert len(state_of(pools).spilled) > 0, "asking brings nothing into memory"
    move(pools)
    pools.settle()
    assert pools.wrong(meant) == []
    assert ended_away(pools) == ids(meant)


def test_what_runs_stays_and_so_does_what_may_not_go() -> None:
    pools = TwoPools()
    pools.workers.append(ObedientWorker(pools.world, HOME, runs_ms=5_000, limit=1))
    runs = pools.submit()
    pools.run(BEGIN_MS)
    kept = pools.submit()
    pools.run(500)
    state_of(pools).tracked[kept.id].stays = True  # as of one that was too large for the other pool's log
    found = asked(pools)
    assert (found.may_go, found.queued, found.running) == (0, 1, 1)
    assert found.stay == {Stays.REFUSED: 1}
    move(pools)
    pools.run(1_500)
    assert not state_of(pools).bulk_moves
    pools.settle()
    assert ended_away(pools) == set()
    assert pools.wrong([runs, kept]) == []


def test_to_a_pool_or_a_model_that_nobody_knows_nothing_goes_and_the_order_is_over() -> None:
    pools = TwoPools()
    record = pools.submit()
    pools.run(BEGIN_MS)
    nowhere, no_model = asked(pools, to="nowhere"), asked(pools, model="none")
    assert (nowhere.may_go, nowhere.stay) == (0, {Stays.NO_POOL: 1})
    assert (no_model.may_go, no_model.stay) == (0, {Stays.NO_MODEL: 1})
    assert asked(pools, model=AWAY).may_go == 1
    move(pools, to="nowhere")
    move(pools, model="none")
    pools.run(2_000)
    assert not state_of(pools).bulk_moves
    assert record.id in state_of(pools).tracked


def test_an_order_that_does_not_say_before_which_offsets_is_taken_out() -> None:
    pools = TwoPools()
    record = pools.submit()
    pools.run(BEGIN_MS)
    move(pools, stands_before=None)
    pools.run(2_000)
    letters = [letter for number in range(2) for letter in pools.log(TopicKind.DLQ, partition=number)]
    assert [letter.reason for letter in letters if isinstance(letter, DeadLetter)] == [
        FailureKind.LYING_RECORD
    ]
    assert record.id in state_of(pools).tracked


def test_an_operators_priority_goes_along() -> None:
    """It stands in the record that is written to the other pool."""
    pools = TwoPools()
    record = pools.submit(priority=1)
    pools.run(BEGIN_MS)
    tracked = state_of(pools).tracked[record.id]
    state_of(pools).queue.reorder(tracked, with_priority(tracked.order, 7))
    move(pools)
    pools.settle()
    there = [r for r in pools.log(TopicKind.REQUESTS, AWAY, PARTITION) if isinstance(r, RequestRecord)]
    assert [each.priority for each in there] == [7]
