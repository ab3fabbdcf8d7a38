"""What the owner says may wait: never less than is served in time, and named for those who wait most."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.durations import ms
from headrace.contracts.observations import QueueState
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core import telling
from headrace.scheduler.decisions.estimate_wait import WINDOW
from headrace.scheduler.decisions.how_much_may_wait import may_wait, most_done, served_in_time
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.state.pace import REMEMBERED, Pace
from tests.support.scheduler.deadly_pool import DeadlyPool
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.queue_alone import queue_of, request

SECOND = timedelta(seconds=1)
ATTEMPTS = st.lists(
    st.tuples(st.integers(0, 60_000), st.integers(1, 60_000), st.integers(0, 10**6)), max_size=30
)
LOOKS = st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 10**6), st.booleans()), max_size=60)
PARTS = st.fractions(0, 1)
COSTS = st.integers(0, 10**9)


@given(ATTEMPTS)
def test_the_rate_of_a_half_minute_is_never_less_than_the_work_done_in_it(
    attempts: list[tuple[int, int, int]],
) -> None:
    since, now = 30_000, 60_000
    done, settled, in_flight = Fraction(0), 0, 0
    for began, took, cost in attempts:
        inside = max(0, min(began + took, now) - max(began, since))
        done += Fraction(cost * inside, took)
        settled += cost if since < began + took <= now else 0
        in_flight += cost if began <= now < began + took else 0
    assert most_done(settled, in_flight, now - since) * (now - since) >= done


@given(LOOKS)
def test_a_pool_is_measured_by_its_fullest_half_minutes_alone(looks: list[tuple[int, int, bool]]) -> None:
    pace, now, worked = Pace(), 0, 0
    full_ms: int | None = None
    counted: list[tuple[int, int]] = []
    for step, rate, full in looks:
        now += step
        worked += step if full and full_ms is not None else 0
        full_ms = None if not full else 0 if full_ms is None else full_ms + step
        if full_ms is not None and full_ms >= ms(WINDOW):
            counted.append((worked, rate))
            counted = [each for each in counted if each[0] >= worked - ms(REMEMBERED)]
        pace.look(now, Fraction(rate), full=full)
        assert pace.rate == max((rate for _, rate in counted), default=None)


@given(pace=COSTS, part=PARTS, others=st.integers(0, 10**12), seconds=st.integers(1, 86_400))
def test_what_may_wait_is_what_its_part_or_what_the_others_leave_serves_in_time(
    pace: int, part: Fraction, others: int, seconds: int
) -> None:
    found = may_wait(Fraction(pace, 1_000), part, seconds * SECOND, others=others)
    exact = max(Fraction(pace) * part * seconds, Fraction(pace * seconds - others))
    assert exact <= found < exact + 1
    assert found >= served_in_time(Fraction(pace, 1_000), part, seconds * SECOND)


def test_a_backlog_is_told_by_tenant_by_tier_and_in_all() -> None:
    _, queue = queue_of({"t": Fraction(1), "u": Fraction(1)}, {})
    for number, tenant in enumerate("aab"):
        queue.put(request(number, tenant, "t", number + 1))
    queue.put(request(3, "a", "u", 7))
    assert queue.backlogs("t") == {"a": (2, 3), "b": (1, 3)}
    assert (queue.backlog_of_tier("t"), queue.backlog_of_tier("u")) == ((3, 6), (1, 7))
    assert queue.backlog_of_all() == (4, 13)


@pytest.fixture
def pool() -> DeadlyPool:
    """Four requests of 3 service units a second; what waits in batch may wait for a minute."""
    made = DeadlyPool(workers=1, limit=4, runs_ms=900)
    minute(made.owner)
    made.run(1_000)
    return made


def minute(owner: SimScheduler) -> None:
    policy = owner.setting.policy
    batch = msgspec.structs.replace(policy.tiers["batch"], queue_timeout=60 * SECOND)
    policy = msgspec.structs.replace(policy, tiers={**policy.tiers, "batch": batch})
    owner.setting = replace(owner.setting, policy=policy, window=Window())


def submit(pool: DeadlyPool, count: int, tenant: str = "a") -> None:
    for _ in range(count):
        pool.submit(tenant=tenant, prompt_tokens=1)


def last_word(pool: DeadlyPool) -> QueueState:
    found: list[Any] = pool.world.records(TopicKind.QUEUE_STATE)
    return next(each for each in reversed(found) if isinstance(each, QueueState) and each.tier == "batch")


def test_an_owner_that_knows_no_rate_names_no_cap_and_nobody(pool: DeadlyPool) -> None:
    found = last_word(pool)
    assert (found.accepting, found.may_wait, found.tenants, found.backlog) == (True, None, (), 0)


def test_thousands_at_once_meet_no_cap_where_the_pool_had_little_to_do_before(pool: DeadlyPool) -> None:
    for _ in range(20):
        submit(pool, 1)
        pool.run(2_000)
    submit(pool, 2_000)
    pool.run(20_000)
    found = last_word(pool)
    assert found.depth > 1_800
    assert (found.accepting, found.may_wait, found.tenants) == (True, None, ())


def test_a_full_pool_says_what_waits_and_what_it_serves_in_time(pool: DeadlyPool) -> None:
    submit(pool, 1_000)
    pool.run(35_000)
    found, began = last_word(pool), len(pool.world.records(TopicKind.RESULTS))
    (mine,) = found.tenants
    assert (mine.tenant, mine.depth, mine.backlog) == ("a", found.depth, 3 * found.depth)
    assert found.held == 4
    assert found.served_milli == mine.served_milli > 0
    assert mine.may_wait == mine.fair_share == found.may_wait
    assert (found.accepting, found.may_wait is not None and found.backlog > found.may_wait) == (False, True)
    pool.run(60_000)
    served = len(pool.world.records(TopicKind.RESULTS)) - began
    assert found.may_wait is not None
    assert 3 * served <= found.may_wait <= 3.6 * served


def test_who_comes_beside_a_flood_may_wait_for_its_share(pool: DeadlyPool) -> None:
    submit(pool, 1_000)
    pool.run(35_000)
    submit(pool, 9, "b")
    pool.run(1_100)
    of = {each.tenant: each for each in last_word(pool).tenants}
    assert of["b"].may_wait == of["b"].fair_share > 2 * of["a"].fair_share > 0
    assert of["a"].may_wait > of["a"].fair_share


def test_who_comes_beside_little_may_wait_for_all_that_it_leaves(pool: DeadlyPool) -> None:
    submit(pool, 180)
    pool.run(34_000)
    submit(pool, 5, "c")
    pool.run(1_100)
    found = last_word(pool)
    of = {each.tenant: each for each in found.tenants}
    assert found.may_wait is not None
    assert abs(found.may_wait - of["a"].backlog - of["c"].may_wait) <= 1
    assert of["c"].may_wait > 1.5 * of["c"].fair_share


def test_an_outage_makes_no_queue_shorter(pool: DeadlyPool) -> None:
    submit(pool, 1_000)
    pool.run(35_000)
    before = last_word(pool)
    pool.workers[0].silent_until = pool.world.now_ms + 25_000
    pool.run(35_000)
    after = last_word(pool)
    assert before.may_wait is not None
    assert after.may_wait is not None
    assert after.may_wait >= before.may_wait
    assert 2 * after.served_milli < before.served_milli


def test_a_new_owner_refuses_nobody_before_it_has_seen_the_pool_work(pool: DeadlyPool) -> None:
    submit(pool, 1_000)
    pool.run(35_000)
    assert not last_word(pool).accepting
    pool.owner = SimScheduler(pool.world, 1)
    minute(pool.owner)
    pool.run(20_000)
    found = last_word(pool)
    assert found.epoch == 2
    assert found.held == 4
    assert (found.accepting, found.may_wait, found.tenants) == (True, None, ())
    pool.run(30_000)
    assert not last_word(pool).accepting


def test_however_many_wait_a_bounded_number_is_named_those_first_who_wait_most(
    pool: DeadlyPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "MOST_TENANTS_TOLD", 1)
    submit(pool, 600)
    pool.run(35_000)
    submit(pool, 600, "b")
    pool.run(1_100)
    assert [each.tenant for each in last_word(pool).tenants] == ["a"]
    submit(pool, 1_500, "b")
    pool.run(1_100)
    assert [each.tenant for each in last_word(pool).tenants] == ["b"]
