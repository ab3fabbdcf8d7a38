"""Another policy holds from one decision to the next, as if a new owner had come with it; what waits keeps its order."""

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import CeilingPolicy, Policy
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Usage
from headrace.scheduler.decisions.is_it_over_its_ceiling import ceiling_of
from headrace.scheduler.state.account import Account
from headrace.scheduler.state.ceilings import Ceilings
from tests.support.scheduler.case import Case
from tests.support.scheduler.fair_bounds import BoundsWatch
from tests.support.scheduler.pure import policy
from tests.support.scheduler.queue_alone import UNIT, QueueAlone

costs = st.lists(st.integers(1, 10**9), max_size=8)
shares = st.fractions(min_value=Fraction(1, 100), max_value=5, max_denominator=100)


@given(st.integers(0, 10**9), costs, shares, shares)
def test_a_counter_with_another_share_is_what_a_new_owner_would_have(
    settled: int, charges: list[int], before: Fraction, after: Fraction
) -> None:
    changed, fresh = Account(before, settled), Account(after, settled)
    for charge in charges:
        changed.charge(charge)
        fresh.charge(charge)
    changed.reshare(after, charges)
    assert changed == fresh
    for charge in charges:
        changed.refund(charge)
    assert (changed.value, changed.in_flight) == (settled, 0)
    assert fresh.step_of(0) == 0


def changed_weights(run: QueueAlone, weights: dict[str, int]) -> None:
    run.weights = weights
    shares = {name: tier.account.share for name, tier in run.accounts.tiers.items()}
    run.accounts.adopt(shares, weights, [(*each.whose, each.stands) for each in run.running])
    run.queue.weights_changed()


def test_the_bound_holds_over_changes_of_weights_but_for_what_is_in_flight() -> None:
    for seed in range(40):
        dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
        run = QueueAlone(dice.randint(1, 6), dict.fromkeys("abc", 1))
        watch = BoundsWatch(run)
        for turn in range(120):
            for name in "abc":
                while run.waiting(name) < 8:
                    run.put(name, dice.randint(1, 10) * UNIT)
            while run.dispatch() is not None:
                watch.look()
            for attempt in dice.sample(run.running, dice.randint(0, len(run.running))):
                run.end(attempt, attempt.charge * dice.choice([0, 1, 2]))
            watch.look()
            if turn % 10 == 9:
                changed_weights(run, {name: dice.randint(1, 5) for name in "abc"})
        run.weights = dict.fromkeys("abc", 1)
        most = run.most_cost * run.slots
        assert watch.worst_lag <= watch.lag_bound + most


def test_after_a_change_of_weights_service_goes_by_the_new_ones() -> None:
    run = QueueAlone(1, {"a": 1, "b": 1})
    for _ in range(300):
        run.put("a", UNIT)
        run.put("b", UNIT)
    for weights, part in (({"a": 1, "b": 1}, 40), ({"a": 3, "b": 1}, 60), ({"a": 1, "b": 3}, 20)):
        changed_weights(run, weights)
        got = 0
        for _ in range(80):
            attempt = run.dispatch()
            assert attempt is not None
            got += attempt.whose[1] == "a"
            run.end(attempt, attempt.charge)
        assert abs(got - part) <= 2


def test_ceilings_go_on_from_what_is_owed() -> None:
    minute, hour = ceiling_of(CeilingPolicy(requests=6, at_once=1)), ceiling_of(CeilingPolicy(tokens=60))
    made = Ceilings([], {"a": [minute], "b": [hour], "c": [minute]})
    told: list[str] = []
    made.goes_on = told.append
    for name in "abc":
        made.charge(name, 100, 0)
    assert set(made.closed) == {"a", "b", "c"}
    faster = ceiling_of(CeilingPolicy(requests=60, at_once=1))
    made.adopt([], {"a": [faster], "b": [minute]}, boot_ms=1_000)
    assert told == ["c", "b"]
    assert made.closed == {"a": 1_900}, "nine tenths of a request are owed, at ten times the pace"
    assert list(made.forget_idle(1_000)) == ["b", "c"]
    assert list(made.forget_idle(20_000)) == []
    made.turn(20_000)
    assert list(made.forget_idle(20_000)) == ["a"]


def test_a_lowered_ceiling_is_owed_what_was_spent_below_the_old_one() -> None:
    """Ten a second and 100 at once; then one a second: 100 more are owed for 100 s, not for ten."""
    made = Ceilings([], {"a": [ceiling_of(CeilingPolicy(tokens=600, at_once=100))]})
    made.charge("a", 200, 0)
    assert made.closed == {"a": 10_100}
    made.adopt([], {"a": [ceiling_of(CeilingPolicy(tokens=60, at_once=100))]}, boot_ms=0)
    assert made.closed == {"a": 101_000}
    made.settle("a", 200, 100, 0)
    assert made.closed == {"a": 1_000}, "what was charged is taken back as it was charged"
    made.adopt([], {"a": [ceiling_of(CeilingPolicy(tokens=600, at_once=100))]}, boot_ms=0)
    assert made.closed == {"a": 100}


def adopted(case: Case, other: Policy) -> None:
    case.owner.setting = replace(case.owner.setting, policy=other)
    assert case.owner.core is not None
    case.owner.core.adopt(other)


def served(limit: int = 4, **more: Any) -> Case:
    case = Case(policy(**more))
    case.run()
    case.report(limit=limit)
    case.run(100)
    return case


def ran(case: Case) -> set[str]:
    return {run.request.id for run in case.commands(Run)}


def test_what_was_found_of_the_topics_outlives_a_change() -> None:
    case = served()
    core = case.owner.core
    assert core is not None
    ids = {case.owner.setting.place(TopicKind.CONTROL).topic: "an id"}
    core.state.setting = replace(core.state.setting, topic_ids=ids)
    other = policy(headroom_percent=10)
    core.adopt(other)
    assert (core.state.setting.policy, core.state.setting.topic_ids) == (other, ids)


def test_what_waits_of_a_tenant_that_is_taken_out_is_served() -> None:
    case = served(limit=1)
    for _ in range(3):
        case.submit()
    case.run(200)
    made = policy()
    adopted(case, msgspec.structs.replace(made, tenants={"b": made.tenants["b"]}))
    for _ in range(4):
        run = case.commands(Run)[-1]
        case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=Usage(completion_tokens=3))
        case.report(limit=1)
        case.run(500)
    assert [run.request.tenant for run in case.commands(Run)] == ["a"] * 3
    assert {status for _, status, _ in case.results()} <= {Status.SUCCEEDED}


def test_a_tenant_is_paced_from_the_next_decision_on_and_not_any_more_from_another() -> None:
    case = served(limit=40)
    made = policy()
    paced = msgspec.structs.replace(made.tenants["a"], ceilings=(CeilingPolicy(requests=1),))
    case.submit()
    case.run(200)
    adopted(case, msgspec.structs.replace(made, tenants={**made.tenants, "a": paced}))
    case.submit()
    case.submit()
    case.run(500)
    assert len(ran(case)) == 2
    adopted(case, made)
    case.report(limit=40)
    case.run(500)
    assert len(ran(case)) == 3


def test_a_tier_gets_and_loses_headroom() -> None:
    case = served(limit=2)
    adopted(case, policy(headroom_percent=50))
    for _ in range(4):
        case.submit()
    case.submit(into="interactive")
    case.run(1_000)
    assert [run.request.tier for run in case.commands(Run)].count("interactive") == 1
    adopted(case, policy())
    assert case.owner.core is not None
    assert case.owner.core.state.setting.policy.tiers["interactive"].headroom_percent == 0
    case.run(500)
