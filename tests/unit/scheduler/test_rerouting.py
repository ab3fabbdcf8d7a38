"""A request that is passed on to another pool: one result, nothing lost, whoever dies at which step."""

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.bus.messages import Place
from headrace.contracts.lifecycle import Status
from headrace.contracts.policy import Policy
from headrace.contracts.requests import MOST_HOPS, RequestRecord
from headrace.contracts.selections import Stays
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Payload
from headrace.scheduler.decisions.may_reroute import why_it_stays
from tests.support.scheduler.pure import NAMES
from tests.support.scheduler.two_pools import AWAY, HOME, PARTITION, THIRD, ObedientWorker, TwoPools

BEGIN_MS = 1_000
CRASHES = range(BEGIN_MS - 100, BEGIN_MS + 1_500, 75)
RECORD = RequestRecord(
    id="i", tenant="t", pool="p", tier="batch", partition=0, model="m", route="/r", accepted_ms=1_700_000_000_000,
    payload=Payload(size=2), gateway=0,
)  # fmt: skip


def passing_on(seed: int = 1, count: int = 3, faults_end_ms: int = 0) -> tuple[TwoPools, list[RequestRecord]]:
    """Requests that wait at home and are to be passed on from an instant on."""
    pools = TwoPools(seed, faults_end_ms=faults_end_ms)
    submitted = [pools.submit() for _ in range(count)]
    pools.orders += [(BEGIN_MS, record.id, AWAY) for record in submitted]
    return pools, submitted


def written_away(pools: TwoPools) -> list[RequestRecord]:
    records = pools.log(TopicKind.REQUESTS, AWAY, PARTITION)
    return [record for record in records if isinstance(record, RequestRecord)]


def test_a_request_is_passed_on_and_ends_where_it_went() -> None:
    pools, (record,) = passing_on(count=1)
    pools.settle()
    assert pools.wrong([record]) == []
    assert pools.results() == {record.id: [Status.SUCCEEDED]}
    (there,) = written_away(pools)
    assert (there.pool, there.hop, there.through, there.model) == (AWAY, 1, (HOME,), "small-v1")
    assert (there.id, there.accepted_ms, there.gateway) == (record.id, record.accepted_ms, record.gateway)
    (result,) = pools.log(TopicKind.RESULTS, partition=PARTITION)
    assert (result.pool, result.model) == (AWAY, "small-v1")


def test_an_owner_that_dies_at_any_step_loses_nothing_and_repeats_nothing() -> None:
    for at_ms in CRASHES:
        for pool in (HOME, AWAY):
            pools, submitted = passing_on(seed=at_ms)
            pools.run(at_ms)
            pools.owners[pool].crash()
            pools.run(1_000)
            pools.settle()
            assert (at_ms, pool, pools.wrong(submitted)) == (at_ms, pool, [])
            assert all(len(ends) == 1 for ends in pools.results().values())


def test_a_successor_does_not_run_what_its_predecessor_may_have_passed_on() -> None:
    """It has workers, and nobody tells it to pass anything on: it finds the intent, or the request never left."""
    for at_ms in CRASHES:
        pools, submitted = passing_on(seed=at_ms)
        pools.run(at_ms)
        pools.owners[HOME].crash()
        pools.orders = []
        pools.workers.append(ObedientWorker(pools.world, HOME))
        pools.settle()
        assert (at_ms, pools.wrong(submitted)) == (at_ms, [])
        assert all(len(ends) == 1 for ends in pools.results().values())


def test_an_owner_that_is_paused_at_any_step_and_wakes_up_as_a_zombie_repeats_nothing() -> None:
    for at_ms in CRASHES:
        pools, submitted = passing_on(seed=at_ms)
        pools.run(at_ms)
        pools.paused.add(pools.owners[HOME])
        pools.run(7_000)
        assert pools.standby.core is not None
        pools.paused.clear()
        pools.run(500)
        pools.settle()
        assert (at_ms, pools.wrong(submitted)) == (at_ms, [])
        assert all(len(ends) == 1 for ends in pools.results().values())


def test_both_owners_die_again_and_again_while_logs_are_away_and_acknowledgements_get_lost() -> None:
    for seed in range(12):
        pools, submitted = passing_on(seed, count=6, faults_end_ms=12_000)
        pools.world.forgets = 0.1
        while pools.world.now_ms < 12_000:
            pools.turn()
            if pools.world.rng.random() < 0.004:
                pools.owners[pools.world.rng.choice([HOME, AWAY])].crash()
        pools.settle()
        assert (seed, pools.wrong(submitted)) == (seed, [])
        assert all(len(ends) == 1 for ends in pools.results().values())


def test_a_request_goes_through_three_pools_whoever_dies() -> None:
    for at_ms in CRASHES[::3]:
        pools = TwoPools(at_ms, owned=(HOME, AWAY, THIRD))
        pools.workers = [ObedientWorker(pools.world, THIRD)]
        record = pools.submit()
        pools.orders += [(BEGIN_MS, record.id, AWAY), (BEGIN_MS + 800, record.id, THIRD)]
        pools.run(at_ms)
        pools.owners[(HOME, AWAY, THIRD)[at_ms // 50 % 3]].crash()
        pools.settle()
        assert (at_ms, pools.wrong([record])) == (at_ms, [])
        assert pools.results() == {record.id: [Status.SUCCEEDED]}
        (result,) = pools.log(TopicKind.RESULTS, partition=PARTITION)
        assert result.model in ("tiny-v1", "small-v1")


def test_a_cancel_reaches_its_request_wherever_it_is() -> None:
    for at_ms in range(0, BEGIN_MS + 2_000, 50):
        pools, (record,) = passing_on(seed=at_ms, count=1)
        pools.workers[0].runs_ms = 4_000
        pools.run(at_ms)
        pools.cancel(record)
        pools.settle()
        assert (at_ms, pools.wrong([record])) == (at_ms, [])
        assert pools.results() == {record.id: [Status.CANCELLED]}


def test_a_cancel_that_is_read_before_its_request_is_kept_where_that_was_passed_on_to() -> None:
    pools, (record,) = passing_on(count=1)
    pools.run(BEGIN_MS)
    place = Place(NAMES.of(TopicKind.REQUESTS, pool=AWAY, tier="batch"), PARTITION)
    pools.owners[AWAY].stalled[place] = BEGIN_MS + 6_000
    pools.run(2_000)
    assert written_away(pools)
    pools.cancel(record)
    pools.settle()
    assert pools.wrong([record]) == []
    assert pools.results() == {record.id: [Status.CANCELLED]}


def test_a_cancel_finds_its_request_two_pools_away() -> None:
    pools = TwoPools(owned=(HOME, AWAY, THIRD))
    pools.workers = [ObedientWorker(pools.world, THIRD, runs_ms=20_000)]
    record = pools.submit()
    pools.orders += [(BEGIN_MS, record.id, AWAY), (BEGIN_MS, record.id, THIRD)]
    pools.run(6_000)
    assert pools.workers[0].ran[record.id] == 1
    pools.cancel(record)
    pools.settle()
    assert pools.wrong([record]) == []
    assert pools.results() == {record.id: [Status.CANCELLED]}


def test_a_cancel_outlives_the_owner_that_was_to_pass_it_on() -> None:
    for crash_ms in range(0, 1_500, 100):
        pools, (record,) = passing_on(seed=crash_ms, count=1)
        pools.workers[0].runs_ms = 12_000
        pools.run(BEGIN_MS + 900)
        pools.world.out_until[Place(NAMES.of(TopicKind.CONTROL, pool=AWAY), 0)] = BEGIN_MS + 5_000
        pools.cancel(record)
        pools.run(crash_ms)
        pools.owners[HOME].crash()
        pools.settle()
        assert (crash_ms, pools.wrong([record])) == (crash_ms, [])
        assert pools.results() == {record.id: [Status.CANCELLED]}


def test_a_cancel_that_comes_before_the_write_is_carried_out_at_home() -> None:
    pools, (record,) = passing_on(count=1)
    pools.run(BEGIN_MS)
    home = pools.owners[HOME].core
    assert home is not None
    assert list(home.state.reroutes) == [record.id]
    pools.cancel(record)
    pools.settle()
    assert pools.results() == {record.id: [Status.CANCELLED]}
    assert written_away(pools) == []


def test_whoever_asks_is_answered_by_the_pool_that_has_it() -> None:
    pools, (record,) = passing_on(count=1)
    pools.workers[0].runs_ms = 5_000
    pools.run(4_000)
    pools.ask(record)
    pools.run(500)
    answers = pools.log(TopicKind.REPLIES)
    assert [(answer.known, answer.status, answer.model) for answer in answers] == [
        (True, Status.RUNNING, "small-v1")
    ]


def test_a_successor_knows_where_requests_went_before_it_came() -> None:
    pools, (record,) = passing_on(count=1)
    pools.workers[0].runs_ms = 30_000
    pools.run(4_000)
    pools.owners[HOME].crash()
    pools.run(5_000)
    pools.cancel(record)
    pools.settle()
    assert pools.results() == {record.id: [Status.CANCELLED]}


def test_a_record_that_was_written_twice_runs_once_though_the_first_was_passed_on() -> None:
    pools, (record,) = passing_on(count=1)
    pools.workers.append(ObedientWorker(pools.world, HOME, limit=0))
    pools.settle()
    pools.write(record)
    pools.workers[1].limit = 4
    pools.run(2_000)
    assert pools.wrong([record]) == []
    assert pools.results() == {record.id: [Status.SUCCEEDED]}


def test_what_was_in_a_workers_hands_stays() -> None:
    pools = TwoPools()
    pools.workers.append(ObedientWorker(pools.world, HOME, runs_ms=3_000))
    record = pools.submit()
    pools.run(1_500)
    pools.orders.append((0, record.id, AWAY))
    pools.settle()
    assert pools.wrong([record]) == []
    assert written_away(pools) == []


@given(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True),
    st.sampled_from("abcdefg"),
    st.booleans(),
    st.booleans(),
)
@example(list("abcd"), "e", False, False)
def test_nobody_goes_where_it_was_or_nobody_is_or_too_often(
    been_in: list[str], to: str, was_tried: bool, kept: bool
) -> None:
    *through, pool = been_in
    record = msgspec.structs.replace(RECORD, pool=pool, hop=len(through), through=tuple(through), stays=kept)
    against = {
        Stays.NO_POOL: to == "g",
        Stays.TRIED: was_tried,
        Stays.KEPT: kept,
        Stays.BEEN_THERE: to in been_in,
        Stays.TOO_MANY_POOLS: len(through) >= MOST_HOPS,
    }
    why = why_it_stays(record, to, set("abcdef"), was_tried=was_tried)
    assert against[why] if why is not None else not any(against.values())


def test_a_pool_that_the_policy_lost_keeps_what_was_to_go_there() -> None:
    pools, (record,) = passing_on(count=1)
    pools.run(BEGIN_MS + 50)
    pools.world.out_until[Place(NAMES.of(TopicKind.REQUESTS, pool=AWAY, tier="batch"), PARTITION)] = 10**9
    pools.run(2_000)
    home = pools.owners[HOME]
    assert home.core is not None
    assert list(home.core.state.reroutes) == [record.id]
    object.__setattr__(home.setting, "policy", without(home.setting.policy, AWAY))
    home.crash()
    pools.orders = []
    pools.workers.append(ObedientWorker(pools.world, HOME))
    pools.settle()
    assert pools.results() == {record.id: [Status.SUCCEEDED]}
    assert home.core is not None
    assert home.core.state.reroutes == {}


def test_what_is_too_large_for_the_other_pools_log_runs_here_whoever_tried_to_write_it() -> None:
    for at_ms in CRASHES:
        pools, submitted = passing_on(seed=at_ms)
        pools.world.narrow.add(Place(NAMES.of(TopicKind.REQUESTS, pool=AWAY, tier="batch"), PARTITION))
        pools.workers.append(ObedientWorker(pools.world, HOME, runs_ms=1_000))
        pools.workers[1].limit = 0
        pools.run(at_ms)
        pools.owners[HOME].crash()
        pools.workers[1].limit = 4
        pools.settle()
        assert (at_ms, pools.wrong(submitted)) == (at_ms, [])
        assert all(len(ends) == 1 for ends in pools.results().values())


def test_what_could_not_be_written_runs_here_only_once_no_successor_can_find_the_intent() -> None:
    pools, (record,) = passing_on(count=1)
    there = Place(NAMES.of(TopicKind.REQUESTS, pool=AWAY, tier="batch"), PARTITION)
    pools.world.narrow.add(there)
    home = ObedientWorker(pools.world, HOME, runs_ms=12_000)
    pools.workers.append(home)
    home.limit = 0
    pools.run(BEGIN_MS)
    home.limit = 4
    while not home.held:
        pools.turn()
    pools.owners[HOME].crash()
    pools.world.narrow.clear()
    pools.settle()
    assert pools.wrong([record]) == []
    assert written_away(pools) == []


def without(policy: Policy, pool: str) -> Policy:
    return msgspec.structs.replace(policy, pools={k: v for k, v in policy.pools.items() if k != pool})
