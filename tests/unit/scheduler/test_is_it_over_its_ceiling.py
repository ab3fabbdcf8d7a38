"""No more is charged in any time than a ceiling says, and who always wants more gets all of it."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.policy import CostWeights, Spent
from headrace.contracts.values import MOST_TOKENS
from headrace.scheduler.decisions.estimate_cost import most_tokens
from headrace.scheduler.decisions.is_it_over_its_ceiling import (
    Ceiling,
    ceiling_of,
    charged,
    opens_us,
    settled,
)
from headrace.scheduler.state.ceilings import Ceilings
from tests.support.scheduler.ceilings import REQUESTS, TOKENS

ceilings = st.builds(
    Ceiling,
    st.sampled_from(Spent),
    amount=st.integers(1, 10**6),
    per_us=st.integers(10**6, 10**9),
    at_once=st.integers(1, 10**5),
)
moments = st.lists(st.tuples(st.integers(0, 10**7), st.integers(1, 10**4)), max_size=30)
"""Of each: microseconds since the one before, and what it takes."""


@given(ceilings, moments)
def test_in_no_time_is_more_charged_than_the_ceiling_says(
    ceiling: Ceiling, events: list[tuple[int, int]]
) -> None:
    now_us = due_us = 0
    given_: list[tuple[int, int]] = []
    for passed_us, amount in events:
        now_us += passed_us
        if opens_us(due_us, ceiling) <= now_us:
            due_us = charged(due_us, now_us, amount, ceiling)
            given_.append((now_us, amount))
    for first, (since_us, _) in enumerate(given_):
        for last in range(first, len(given_)):
            spent = sum(amount for _, amount in given_[first : last + 1])
            most = ceiling.amount * (given_[last][0] - since_us) + ceiling.at_once * ceiling.per_us
            assert spent * ceiling.per_us <= most + (given_[last][1] - 1) * ceiling.per_us


@given(ceilings, st.lists(st.integers(1, 10**4), min_size=2, max_size=30))
def test_who_always_wants_more_gets_all_of_it(ceiling: Ceiling, amounts: list[int]) -> None:
    now_us = due_us = 0
    for amount in amounts:
        now_us = max(now_us, opens_us(due_us, ceiling))
        due_us = charged(due_us, now_us, amount, ceiling)
    rounding_us = len(amounts) + 1
    assert now_us * ceiling.amount <= sum(amounts[:-1]) * ceiling.per_us + rounding_us * ceiling.amount


@given(ceilings, moments, st.integers(0, 10**7))
def test_what_was_charged_wrongly_is_put_right_and_saves_nothing_up(
    ceiling: Ceiling, events: list[tuple[int, int]], later_us: int
) -> None:
    now_us = due_us = right_us = 0
    for passed_us, amount in events:
        now_us += passed_us
        due_us = charged(due_us, now_us, amount * 3, ceiling)
        due_us = settled(due_us, now_us, amount * 3, amount, ceiling)
        right_us = charged(right_us, now_us, amount, ceiling)
        assert abs(due_us - right_us) <= 2 * len(events)
        right_us = due_us
    now_us += later_us
    short = settled(due_us, now_us, 0, 10, ceiling)
    assert short == charged(due_us, now_us, 10, ceiling)
    assert charged(settled(0, now_us, 10, 0, ceiling), now_us, 10, ceiling) == charged(0, now_us, 10, ceiling)


_COUNT, _PRICE = st.integers(0, 10**5), st.integers(0, 9)


@given(st.tuples(_COUNT, _COUNT, _COUNT), st.tuples(_PRICE, _PRICE, _PRICE))
def test_a_charge_stands_for_no_fewer_tokens_than_it_was_made_of(
    tokens: tuple[int, int, int], prices: tuple[int, int, int]
) -> None:
    weights = CostWeights(prompt=prices[0], cached=prices[1], completion=prices[2])
    pairs = list(zip(tokens, prices, strict=True))
    found = most_tokens(sum(count * price for count, price in pairs), weights)
    assert found >= sum(count for count, price in pairs if price)
    assert most_tokens(10**15, CostWeights()) == MOST_TOKENS


def test_it_costs_nothing_where_nobody_has_one() -> None:
    none = Ceilings([], {"a": []})
    assert not none
    assert not none.count("a")
    none.turn(10**9)
    assert (none.closed, none.next_ms, none.pool_is_closed) == ({}, None, False)


def test_one_tenants_debts_are_no_others() -> None:
    made = Ceilings([], {"a": [ceiling_of(REQUESTS)], "b": [ceiling_of(TOKENS), ceiling_of(REQUESTS)]})
    told: list[tuple[str, str]] = []
    made.paced, made.goes_on = (
        (lambda name: told.append((name, "paced"))),
        (lambda name: told.append((name, "on"))),
    )
    for _ in range(2):
        made.charge("a", 10**6, 0)
    made.charge("b", 50, 0)
    made.charge("c", 50, 0)
    assert (told, made.closed) == ([("a", "paced")], {"a": 10_000})
    made.charge("b", 100, 0)
    assert made.closed == {"a": 10_000, "b": 10_000}
    assert made.closest("b") in (ceiling_of(TOKENS), ceiling_of(REQUESTS))
    made.take_back("b", 100, 1_000)
    assert told == [("a", "paced"), ("b", "paced"), ("b", "on")]
    made.turn(9_999)
    assert set(made.closed) == {"a"}
    made.turn(10_000)
    assert told[-1] == ("a", "on")
    assert not made.closed
    assert list(made.forget_idle(10**6)) == ["a", "b"]
    assert made.changed == set()


def test_time_in_which_nothing_was_spent_isnt_saved_up() -> None:
    made = Ceilings([], {"a": [ceiling_of(REQUESTS)]})
    for boot_ms in (0, 0, 10**6, 10**6):
        made.turn(boot_ms)
        made.charge("a", 1, boot_ms)
    assert made.closed == {"a": 10**6 + 10_000}
