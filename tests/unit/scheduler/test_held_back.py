"""Who is held back for a while, by an operator or a ceiling, holds up nobody, keeps no credit, and owes what it owed."""

from fractions import Fraction

import pytest

from headrace.contracts.policy import DEFAULT_TIERS
from headrace.scheduler.decisions.pick_next import tier_shares
from headrace.scheduler.state.frozen import Hold
from tests.support.scheduler.fair_runs import RandomRun
from tests.support.scheduler.queue_alone import UNIT, QueueAlone

CASES = range(300, 360)


def test_the_bounds_hold_and_no_slot_idles_while_tenants_are_paced_now_and_then() -> None:
    wrong = {seed: found for seed in CASES if (found := RandomRun(seed, paced=True).go())}
    assert not wrong


def test_tiers_get_their_shares_while_tenants_are_paced_now_and_then() -> None:
    wrong = {seed: found for seed in CASES if (found := RandomRun(seed, tiers=True, paced=True).go())}
    assert not wrong


def busy(run: QueueAlone, *tenants: str, times: int = 1, tier: str = "t") -> None:
    for _ in range(times):
        for tenant in tenants:
            run.put(tenant, UNIT, tier)


def served(run: QueueAlone, times: int) -> list[str]:
    """Whom the next slots go to, one at a time."""
    found = []
    for _ in range(times):
        attempt = run.dispatch()
        assert attempt is not None
        found.append(attempt.whose[1])
        run.end(attempt, attempt.charge)
    return found


def test_who_comes_back_is_served_alike_from_then_on() -> None:
    run = QueueAlone(1, {"a": 1, "b": 1})
    busy(run, "a", "b", times=60)
    run.queue.frozen.pace("a")
    assert served(run, 40) == ["b"] * 40
    run.queue.frozen.go_on("a")
    assert sorted(served(run, 10)) == ["a"] * 5 + ["b"] * 5


def test_who_is_held_back_is_in_no_sum_by_which_others_have_their_parts_of_the_slots() -> None:
    """Ten slots, of which each of four may have five: `slow` would have more by its counter."""
    hold = Hold("t", "held")
    for before in (True, False):
        run = QueueAlone(10, {"held": 96})
        if before:
            run.queue.frozen.freeze(hold)
        busy(run, "held", "b", "c", "d", times=20)
        for _ in range(20):
            run.put("slow", 1)
        run.queue.frozen.freeze(hold)
        assert run.queue.share("t", "slow") == Fraction(1, 4)
        while run.dispatch():
            pass
        assert run.accounts.of("t", "slow").in_flight == 5
        run.queue.frozen.thaw(hold)
        assert run.queue.share("t", "slow") == Fraction(1, 100)


def test_who_comes_to_wait_meanwhile_begins_where_those_are_who_are_served() -> None:
    run = QueueAlone(1, {"a": 1, "b": 1, "c": 1})
    busy(run, "a", "b", times=60)
    run.queue.frozen.pace("a")
    served(run, 40)
    busy(run, "c", times=20)
    assert sorted(served(run, 10)) == ["b"] * 5 + ["c"] * 5


def test_a_tier_of_whom_nobody_may_be_served_keeps_no_credit() -> None:
    for meanwhile in (True, False):
        run = QueueAlone(1, {}, tier_shares(DEFAULT_TIERS))
        busy(run, "paced", times=60, tier="standard")
        busy(run, "other", times=200, tier="interactive")
        run.queue.frozen.pace("paced")
        assert served(run, 80) == ["other"] * 80
        run.checkpoint()
        if meanwhile:
            busy(run, "new", times=60, tier="standard")
        else:
            run.queue.frozen.go_on("paced")
        assert served(run, 20).count("other") >= 13


@pytest.mark.interpreted
def test_a_pick_looks_once_at_who_is_held_back_however_many_there_are() -> None:
    run = QueueAlone(1, {})
    names = [f"t{number}" for number in range(500)]
    busy(run, *names, times=2)
    busy(run, "free", times=10)
    for name in names:
        run.queue.frozen.pace(name)
    assert served(run, 1) == ["free"]
    looked, right = 0, run.accounts.of

    def of(tier: str, tenant: str) -> object:
        nonlocal looked
        looked += 1
        return right(tier, tenant)

    run.accounts.of = of  # type: ignore[assignment,method-assign]
    for _ in range(5):
        assert run.queue.next(1) is not None
    assert looked < 50


def test_it_is_held_back_as_long_as_anybody_wants_it() -> None:
    run = QueueAlone(1, {})
    busy(run, "a", times=5)
    held = run.queue.frozen
    held.pace("a")
    held.freeze(Hold("t", "a"))
    assert (held.free_depth("t"), held.frozen_depth("t"), held.paced_depth("t")) == (0, 5, 5)
    held.go_on("a")
    assert run.dispatch() is None
    held.pace("a")
    held.thaw(Hold("t", "a"))
    assert run.dispatch() is None
    busy(run, "a")
    run.give_up(run.put("a", UNIT))
    assert (held.free_depth("t"), held.paced_depth("t")) == (0, 6)
    held.go_on("a")
    assert served(run, 6) == ["a"] * 6
    assert held.free_depth("t") == 0
    held.pace("a")
    busy(run, "a", "b")
    assert (held.free_depth("t"), held.paced_depth("t")) == (1, 1)
