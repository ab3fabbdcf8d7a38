"""A cancel or a question that follows its request to other pools comes to an end: also among lies and deleted topics."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import Place, message_of
from headrace.bus.ports import BusError, Confirmation, QueueFullError
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.lifecycle import Status
from headrace.contracts.requests import MOST_HOPS
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core import needed_from
from headrace.scheduler.decisions.may_reroute import may_follow
from headrace.scheduler.state.on_its_way import OnItsWay
from headrace.scheduler.state.rerouted import PassedOn
from tests.support.scheduler.pure import NAMES, WALL
from tests.support.scheduler.two_pools import AWAY, HOME, MODELS, TENANT, THIRD, ObedientWorker, TwoPools


def control(pool: str) -> Place:
    return Place(NAMES.of(TopicKind.CONTROL, pool=pool), 0)


def planted(pools: TwoPools, request_id: str) -> None:
    """Both owners believe that the other has it."""
    for pool, other in ((HOME, AWAY), (AWAY, HOME)):
        core = pools.core_of(pool)
        assert core is not None
        core.state.rerouted.add(request_id, other, core.state.minute)


def hops_of(record: CancelRequest | Query) -> list[int]:
    """How often it stands in the two pools' logs, and how far it has come each time."""
    pools = TwoPools()
    pools.run(1_000)
    planted(pools, record.id)
    pools.world.append(message_of(control(HOME), record))
    pools.run(10_000)
    assert not pools.unfinished()
    found = [each for pool in (HOME, AWAY) for each in pools.log(TopicKind.CONTROL, pool)]
    return sorted(each.hop for each in found if isinstance(each, type(record)))


def test_a_cancel_that_two_pools_send_to_each_other_goes_round_no_longer_than_a_request_would() -> None:
    assert hops_of(CancelRequest(id="r1", tenant=TENANT, at_ms=WALL)) == list(range(MOST_HOPS + 1))


def test_nor_does_a_question() -> None:
    assert hops_of(Query(id="r1", nonce="n", gateway=0)) == list(range(MOST_HOPS + 1))


def test_a_cancel_follows_a_request_as_far_as_that_may_go() -> None:
    pools = TwoPools(owned=(HOME, AWAY, THIRD))
    pools.workers = [ObedientWorker(pools.world, THIRD, runs_ms=60_000)]
    record = pools.submit()
    pools.orders += [(1_000, record.id, AWAY), (2_000, record.id, THIRD)]
    pools.run(4_000)
    assert pools.workers[0].held
    pools.cancel(record)
    pools.settle()
    assert pools.results() == {record.id: [Status.CANCELLED]}
    assert [each.hop for each in pools.log(TopicKind.CONTROL, THIRD) if isinstance(each, CancelRequest)] == [
        2
    ]


def notices(pools: TwoPools) -> list[str]:
    return [each.event for each in pools.owners[HOME].notices if "passed on" in each.event]


def test_a_cancel_whose_pool_has_no_log_any_more_is_given_up_and_that_is_said_once() -> None:
    pools = TwoPools()
    pools.workers[0].runs_ms = 10**9
    records = [pools.submit() for _ in range(3)]
    pools.orders += [(1_000, record.id, AWAY) for record in records]
    pools.run(3_000)
    pools.world.deleted.add(control(AWAY))
    for record in records:
        pools.cancel(record)
    pools.run(50_000)
    core = pools.core_of(HOME)
    assert core is not None
    assert len(core.state.passed_on) == 3, "a broker that is behind may not know of it yet"
    assert notices(pools) == []
    pools.run(12_000)
    assert not core.state.passed_on
    assert len(notices(pools)) == 1
    assert needed_from.control_to_keep(core.state) == core.state.control_read, (
        "the log may be trimmed behind them"
    )


def test_a_queue_of_our_own_that_is_full_gives_no_cancel_up() -> None:
    pools = TwoPools()
    pools.run(1_000)
    core = pools.core_of(HOME)
    assert core is not None
    sent = PassedOn(7, CancelRequest(id="r1", tenant=TENANT, at_ms=WALL), AWAY)
    core.state.passed_on[7] = sent

    def refused_for_a_minute(error: BusError) -> list[int]:
        for _ in range(2):
            core.rerouting.confirmed(sent, Confirmation(sent, control(AWAY), None, error))
            core.state.now = replace(core.state.now, boot_ms=core.state.now.boot_ms + 61_000)
        return list(core.state.passed_on)

    assert refused_for_a_minute(QueueFullError("full")) == [7]
    assert refused_for_a_minute(BusError("there is no such topic")) == []


def test_a_request_whose_pool_has_no_log_any_more_waits_here_again() -> None:
    pools = TwoPools()
    record = pools.submit()
    for partition in range(2):
        pools.world.deleted.add(Place(NAMES.of(TopicKind.REQUESTS, pool=AWAY, tier="batch"), partition))
    pools.orders = [(1_000, record.id, AWAY)]
    pools.run(30_000)
    pools.workers.append(ObedientWorker(pools.world, HOME))
    pools.run(30_000)
    assert not pools.results(), "it may be there in a moment"
    pools.settle()
    assert pools.results() == {record.id: [Status.SUCCEEDED]}
    assert pools.workers[1].models == {record.id: MODELS[HOME]}


@given(st.lists(st.tuples(st.integers(1, 30_000), st.booleans()), max_size=20))
def test_only_what_is_refused_for_a_minute_without_a_break_is_given_up(says: list[tuple[int, bool]]) -> None:
    sent, now_ms, since = OnItsWay(), 0, None
    for passed_ms, refused in says:
        now_ms += passed_ms
        since = (now_ms if since is None else since) if refused else None
        assert sent.is_refused_for_good(now_ms, refused=refused) == (
            since is not None and now_ms - since >= 60_000
        )


def test_whoever_followed_as_often_as_a_request_may_go_follows_no_more() -> None:
    assert [may_follow(hop) for hop in range(MOST_HOPS + 2)] == [True] * MOST_HOPS + [False, False]
