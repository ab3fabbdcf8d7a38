"""What goes before a request, as it is told: as the queue itself then releases it, and without walking a long queue."""

import sys
from collections import Counter
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.scheduler.decisions.pick_next import step_of
from headrace.scheduler.decisions.who_is_ahead import Line, counter_at_turn, goes_before
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.ahead import MOST_COUNTED, Before, before
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.tracked import Phase, Tracked
from tests.support.scheduler.queue_alone import UNIT, dispatch, queue_of, request

NAMES = "abcde"


def told(accounts: Accounts, queue: FairQueue, one: Tracked) -> Counter[str]:
    """Who goes before it, by tenant and by other tier, as the decision says it."""
    tier, tenant = one.record.tier, one.record.tenant
    own = queue.ahead_of(one.record, one.order)
    turn = counter_at_turn(accounts.of(tier, tenant).value, accounts.of(tier, tenant).share, own.cost)
    found, cost = Counter({tenant: own.requests}), own.cost
    for line in queue.lines(tier, 100):
        if line.name != tenant:
            going = goes_before(line, tenant, turn)
            found[line.name], cost = going.requests, cost + going.cost
    account = accounts.tiers[tier].account
    tag = counter_at_turn(account.value, account.share, cost)
    for name, of in accounts.tiers.items():
        if name != tier:
            line = Line(name, of.account.value, of.account.share, *queue.backlog_of_tier(name))
            found[name] = goes_before(line, tier, tag).requests
    return +found


@settings(max_examples=150)
@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 5), min_size=1),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["t", "u"])), min_size=1, max_size=60),
    st.integers(0, 30),
    st.randoms(use_true_random=False),
)
def test_what_is_told_to_go_before_a_request_is_what_the_queue_releases_before_it(
    weights: dict[str, int], puts: list[tuple[str, str]], released: int, rng: Random
) -> None:
    """Counters and shares of which every step is whole, so that sums of steps are steps of sums."""
    accounts, queue = queue_of({"t": Fraction(3, 4), "u": Fraction(1, 4)}, weights)
    waiting = [
        request(number, *whose, 60 * UNIT, priority=rng.randint(0, 2)) for number, whose in enumerate(puts)
    ]
    for each in waiting:
        queue.put(each)
    for _ in range(released):
        dispatch(accounts, queue)
    left = [each for each in waiting if each.phase is Phase.WAITING]
    if not left:
        return
    one = rng.choice(left)
    expected = told(accounts, queue, one)
    went: Counter[str] = Counter()
    while (gone := dispatch(accounts, queue)) is not one:
        assert gone is not None
        went[gone.record.tenant if gone.record.tier == one.record.tier else gone.record.tier] += 1
    assert went == expected


@given(
    st.integers(0, 10**9), st.integers(0, 10**9), st.integers(1, 50), st.integers(1, 10**6), st.integers(1, 9)
)
def test_no_more_goes_before_than_waits_and_what_is_far_behind_goes_not_at_all(
    counter: int, other: int, requests: int, cost: int, weight: int
) -> None:
    line = Line("x", other, Fraction(weight), requests, cost * requests)
    going = goes_before(line, "y", counter)
    assert 0 <= going.requests <= requests
    assert going.cost == cost * going.requests
    assert (going.requests == 0) == (other > counter)
    if 0 < going.requests < requests:
        last = other + (going.requests - 1) * step_of(cost, (weight, 1))
        assert last <= counter < last + step_of(cost, (weight, 1)) + 1


def heap_of(count: int) -> tuple[list[Any], list[Tracked]]:
    made = [request(number, "a", "t", UNIT) for number in range(count)]
    for number, each in enumerate(made):
        each.phase, each.entry = Phase.WAITING, number
    return [(each.order, each.entry, each) for each in made], made


@pytest.mark.parametrize("queued", [20_000, 200_000])
def test_a_long_queue_is_counted_in_front_sampled_behind_and_never_walked(queued: int) -> None:
    heap, made = heap_of(queued)
    calls = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    assert before(heap, made[1_000].order) == Before(1_000, 1_000 * UNIT)
    sys.setprofile(seen)
    try:
        found = before(heap, made[queued * 3 // 4].order)
    finally:
        sys.setprofile(None)
    assert not found.exact
    assert abs(found.requests - queued * 3 // 4) <= queued // 50
    assert found.cost == pytest.approx(found.requests * UNIT, rel=0.01)
    assert calls < 16 * MOST_COUNTED


def test_entries_that_wait_no_more_are_not_counted_but_bound_the_walk_too() -> None:
    heap, made = heap_of(4 * MOST_COUNTED)
    for each in made[: 3 * MOST_COUNTED]:
        each.phase = Phase.HELD
    waiting = len(made) - 3 * MOST_COUNTED
    found = before(heap, made[-1].order)
    assert not found.exact
    assert abs(found.requests - waiting) <= waiting // 50
    assert before(heap, made[100].order) == Before(0, 0)


def test_a_request_with_two_entries_counts_once() -> None:
    _, queue = queue_of({"t": Fraction(1)}, {})
    first, second = (request(number, "a", "t", UNIT) for number in (1, 2))
    for each in (first, second):
        queue.put(each)
    queue.take(first, Phase.DELAYED)
    queue.put(first)
    assert queue.ahead_of(second.record, second.order) == Before(1, UNIT)


def test_of_many_tenants_so_many_are_looked_at_evenly() -> None:
    _, queue = queue_of({"t": Fraction(1)}, {})
    for number in range(1_000):
        queue.put(request(number, f"n{number}", "t", UNIT))
    assert len(queue.lines("t", 2_000)) == 1_000
    some = [line.name for line in queue.lines("t", 300)]
    assert some == [f"n{number}" for number in range(0, 1_000, 4)]
