"""Of the orders of new priorities that mean a request the newest counts, and those that mean nothing more are forgotten."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.checkpoints import Reprioritised
from headrace.contracts.selections import Selection, Stage
from headrace.contracts.values import Origin
from headrace.scheduler.decisions.does_it_fit import Facts
from headrace.scheduler.decisions.which_priority import is_over, replaces, which_priority
from headrace.scheduler.state.priority_orders import PriorityOrders
from tests.support.scheduler.orders import ordered


def facts(tenant: str = "a", offset: int = 5, partition: int = 0) -> Facts:
    return Facts("req_1", tenant, "batch", "m", 1_000, Stage.QUEUED, Origin("t", partition, offset))


ORDERS = st.lists(
    st.builds(
        ordered,
        st.integers(0, 50),
        st.integers(-3, 3),
        st.integers(0, 10),
        tenant=st.sampled_from([None, "a", "b"]),
        stage=st.sampled_from([None, *Stage]),
    ),
    unique_by=lambda order: order.offset,
    max_size=8,
)


@given(ORDERS, st.sampled_from("ab"), st.integers(0, 10), st.randoms(use_true_random=False))
def test_of_the_orders_that_mean_a_request_the_newest_counts_however_they_are_listed(
    orders: list[Reprioritised], tenant: str, offset: int, rng: Random
) -> None:
    meant = [
        order
        for order in sorted(orders, key=lambda order: order.offset)
        if order.selection.tenant in (None, tenant) and offset < (order.selection.stands_before or {})["t"][0]
    ]
    wanted = meant[-1].priority if meant else None
    rng.shuffle(orders)
    for stage in (None, *Stage):
        assert which_priority(facts(tenant, offset)._replace(stage=stage), orders) == wanted


@given(ORDERS, st.sampled_from("ab"), st.integers(0, 10))
def test_who_forgets_what_is_needless_says_the_same(
    orders: list[Reprioritised], tenant: str, offset: int
) -> None:
    kept = PriorityOrders()
    for order in sorted(orders, key=lambda order: order.offset):
        kept.keep(order)
    assert kept.priority_of(facts(tenant, offset)) == which_priority(facts(tenant, offset), orders)


def test_an_order_is_over_when_all_before_its_ends_is_finished() -> None:
    order = Reprioritised(
        offset=1, selection=Selection(stands_before={"t": {0: 7, 1: 0}, "gone": {0: 9}}), priority=1
    )
    prefixes = {("t", 0): 6, ("t", 1): 0}
    assert not is_over(order, lambda *at: prefixes.get(at))
    prefixes["t", 0] = 7
    assert is_over(order, lambda *at: prefixes.get(at))


@pytest.mark.parametrize(
    ("newer", "needless"),
    [
        (ordered(9, 1), True),
        (ordered(9, 1, end=11), True),
        (ordered(9, 1, end=9), False),
        (ordered(9, 1, tenant="a"), False),
        (ordered(2, 1), False),
    ],
)
def test_an_order_is_needless_when_a_newer_one_means_all_of_it(newer: Reprioritised, needless: bool) -> None:
    assert replaces(newer, ordered(3, 7)) is needless
