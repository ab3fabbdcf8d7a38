"""The fair queue against the formulas of the design: bounds hold, floors hold, order inside a tenant, no credit by idling."""

from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts.policy import DEFAULT_TIERS, TierPolicy
from headrace.scheduler.decisions.pick_next import lifted, step_of, tier_shares
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.tracked import Tracked
from tests.support.scheduler.queue_alone import UNIT, WALL, dispatch, queue_of, request


def finish(accounts: Accounts, held: Tracked, actual: int) -> None:
    accounts.refund(held.record.tier, held.record.tenant, held.charge)
    accounts.settle(held.record.tier, held.record.tenant, actual)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    slots=st.integers(1, 8),
    weights=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_two_backlogged_tenants_never_differ_by_more_than_the_bound(
    seed: int, slots: int, weights: tuple[int, int]
) -> None:
    rng = Random(seed)  # noqa: S311
    by_name = dict(zip("fg", weights, strict=True))
    accounts, queue = queue_of({"t": Fraction(1)}, by_name)
    for number in range(600):
        queue.put(request(number, rng.choice("fg"), "t", rng.randint(1, 10) * UNIT))
    held: list[Tracked] = []
    most, differ, least = 10 * UNIT, 19 * UNIT, min(weights)  # charged 1..10, actual 0..20
    bound = (
        most // least + slots * differ // least + slots
    )  # B = c_max + K*D/w_min, and what rounding may add
    while all(name in queue.backlogged()["t"] for name in "fg"):
        while len(held) < slots and (found := dispatch(accounts, queue)) is not None:
            held.append(found)
        values = [accounts.of("t", name).value for name in "fg"]
        if all(name in queue.backlogged()["t"] for name in "fg"):
            assert abs(values[0] - values[1]) <= bound
        finish(accounts, held.pop(rng.randrange(len(held))), rng.randint(0, 20) * UNIT)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_backlogged_tier_gets_its_share_whatever_the_others_do(seed: int) -> None:
    rng = Random(seed)  # noqa: S311
    shares = tier_shares(DEFAULT_TIERS)
    accounts, queue = queue_of(shares, {})
    number, work, ours = 0, 0, 0
    for _ in range(50):
        number += 1
        queue.put(request(number, "b", "batch", rng.randint(1, 10) * UNIT))
    while queue.depth("batch"):
        if rng.random() < 0.9:  # the others blink on and off
            number += 1
            tier = rng.choice(["interactive", "standard"])
            queue.put(request(number, rng.choice("xyz"), tier, rng.randint(1, 10) * UNIT))
        found = dispatch(accounts, queue)
        assert found is not None
        work += found.charge
        ours += found.charge if found.record.tier == "batch" else 0
        finish(accounts, found, found.charge)
        share = shares["batch"]
        assert ours >= share * work - (share * len(shares) + 1) * 10 * UNIT


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcde"), st.tuples(st.integers(1, 1000), st.integers(0, 20)), min_size=1)
)
def test_shares_add_up_to_one_and_contain_the_floor(tiers: dict[str, tuple[int, int]]) -> None:
    policies = {name: TierPolicy(weight=w, floor_percent=r) for name, (w, r) in tiers.items()}
    shares = tier_shares(policies)
    assert sum(shares.values()) == 1
    assert all(share >= Fraction(policies[name].floor_percent, 100) for name, share in shares.items())


def test_a_tenant_that_idled_gets_no_burst_and_keeps_its_debt() -> None:
    accounts, queue = queue_of({"t": Fraction(1)}, {})
    for number in range(20):
        queue.put(request(number, "busy", "t", UNIT))
    for _ in range(10):
        dispatch(accounts, queue)
    queue.put(request(100, "idler", "t", UNIT))
    assert accounts.of("t", "idler").value == accounts.of("t", "busy").value == 10 * UNIT
    assert lifted(99, [5], 7) == 99
    assert lifted(1, [], 7) == 7


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_inside_a_tenant_priority_then_deadline_then_arrival_decide(
    wishes: list[tuple[int, int, int]],
) -> None:
    accounts, queue = queue_of({"t": Fraction(1)}, {})
    made = [
        request(n, "a", "t", UNIT, priority=priority, finish_by_ms=WALL + 1000 + deadline)
        for n, (priority, deadline, _) in enumerate(wishes)
    ]
    for each in made:
        queue.put(each)
    order = []
    while (found := dispatch(accounts, queue)) is not None:
        order.append(found)
    assert order == sorted(
        made, key=lambda r: (-r.record.priority, r.record.finish_by_ms, r.record.accepted_ms)
    )


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**9)), max_size=30), st.integers(1, 7))
def test_what_is_charged_is_taken_back_exactly(costs: list[tuple[int, int]], weight: int) -> None:
    accounts, _ = queue_of({"t": Fraction(1, 3)}, {"a": weight})
    for charged, actual in costs:
        accounts.dispatch("t", "a", charged)
        accounts.recharge("t", "a", charged, charged + actual)
        accounts.refund("t", "a", charged + actual)
        accounts.settle("t", "a", actual)
    account = accounts.of("t", "a")
    assert (account.charged, account.in_flight) == (0, 0)
    assert account.settled == sum(step_of(actual, (weight, 1)) for _, actual in costs)


def test_requests_without_a_price_take_turns_whatever_their_tenants_weigh() -> None:
    accounts, queue = queue_of({"t": Fraction(1)}, {"heavy": 7, "light": 1})
    for number in range(40):
        queue.put(request(number, ("heavy", "light")[number % 2], "t", 1))
    served = [found.record.tenant for _ in range(20) if (found := dispatch(accounts, queue))]
    assert served.count("heavy") == served.count("light") == 10
