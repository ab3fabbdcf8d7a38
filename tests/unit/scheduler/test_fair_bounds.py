"""What the order of release promises of tenants and tiers, on random runs and on schedules made to be as unfair as can be.

`make bench-scheduler` and tests/benchmarks/fairness.py run many more of them.
"""

from fractions import Fraction

from headrace.contracts.policy import DEFAULT_TIERS
from headrace.scheduler.decisions.pick_next import most_in_flight, tier_shares
from tests.support.scheduler.fair_bounds import BoundsWatch
from tests.support.scheduler.fair_runs import (
    CASES,
    FAR,
    UNFAIR_GAP,
    UNFAIR_LAG,
    RandomRun,
    dice_of,
    play,
    schedule_of,
    search,
)
from tests.support.scheduler.queue_alone import UNIT, QueueAlone

TIER_CASES = range(110, 150)


def test_tenants_stay_within_the_bounds_and_no_slot_idles() -> None:
    wrong = {seed: found for seed in CASES if (found := RandomRun(seed).go())}
    assert not wrong


def test_where_all_charges_are_right_counters_differ_by_one_charge() -> None:
    for seed in CASES:
        dice = dice_of(seed)
        run = QueueAlone(dice.randint(1, 8), {"f": dice.randint(1, 3), "g": dice.randint(1, 3)})
        watch = BoundsWatch(run)
        for _ in range(40):
            for name in "fg":
                while run.queue.backlog("t", name).requests < 10:
                    run.put(name, dice.randint(1, 10) * UNIT)
            while run.dispatch() is not None:
                watch.look()
            attempt = dice.choice(run.running)
            run.end(attempt, attempt.charge)
            watch.look()
        assert watch.worst_lag <= run.most_charge + run.slots + 1


def test_a_tier_gets_its_share_while_others_blink_on_and_off() -> None:
    wrong = {seed: found for seed in TIER_CASES if (found := RandomRun(seed, tiers=True).go())}
    assert not wrong


def test_a_found_schedule_comes_near_the_bound_of_counters_and_not_beyond() -> None:
    assert FAR <= play(schedule_of(UNFAIR_LAG)).lag <= 1


def test_a_found_schedule_comes_near_the_bound_of_service_and_not_beyond() -> None:
    assert FAR <= play(schedule_of(UNFAIR_GAP)).gap <= 1


def test_a_search_finds_such_schedules_by_itself() -> None:
    assert play(search(1, 150, lambda found: found.lag)).lag >= FAR


def test_a_backlogged_tier_gets_its_share_exactly_but_for_one_charge_where_charges_are_right() -> None:
    """With one slot and no errors the bound is (phi*J + 1)*c_max alone, whoever comes and goes."""
    for seed in CASES:
        dice, shares = dice_of(seed), tier_shares(DEFAULT_TIERS)
        run = QueueAlone(1, {}, shares)
        ahead = most = Fraction(0)
        for _ in range(60):
            run.put("b", dice.randint(1, 10) * UNIT, "batch")
            for tier in ("interactive", "standard"):
                for _ in range(dice.choice([0, 0, 3])):
                    run.put(dice.choice("xyz"), dice.randint(1, 10) * UNIT, tier)
            attempt = run.dispatch()
            assert attempt is not None
            run.end(attempt, attempt.charge)
            ahead = run.got["batch", "b"] - shares["batch"] * sum(run.got.values())
            most = max(most, ahead)
            assert most - ahead <= (shares["batch"] * len(shares) + 1) * 10 * UNIT


def returned(seed: int, *, debt: bool) -> tuple[QueueAlone, Fraction]:
    """A tenant that was served for a while, and maybe overran, has idled; others went on. With its counter before."""
    dice = dice_of(seed)
    run = QueueAlone(dice.randint(1, 4), {"idler": dice.randint(1, 4), "busy": 1, "other": 2})
    for _ in range(10):
        for name in ("busy", "other", "idler"):
            run.put(name, dice.randint(1, 10) * UNIT)
        serve(run)
    run.put("idler", UNIT)
    serve(run, times=100_000 if debt else 1)
    before = run.counter("idler")
    for _ in range(300):
        for name in ("busy", "other"):
            while run.queue.backlog("t", name).requests < 20:
                run.put(name, dice.randint(1, 10) * UNIT)
        attempt = run.dispatch()
        assert attempt is not None
        run.end(attempt, attempt.charge)
        run.checkpoint()
    for _ in range(20):
        run.put("idler", dice.randint(1, 10) * UNIT)
    return run, before


def serve(run: QueueAlone, times: int = 1) -> None:
    """All that waits, one after the other; each costs so many times its charge."""
    while (attempt := run.dispatch()) is not None:
        run.end(attempt, attempt.charge * times)


def test_who_has_idled_gets_no_more_than_one_charge_ahead_of_the_others() -> None:
    for seed in CASES:
        run, _ = returned(seed, debt=False)
        got = 0
        while (attempt := run.dispatch()) is not None and attempt.whose[1] == "idler":
            got += attempt.charge
            run.end(attempt, attempt.charge)
        assert got <= 10 * UNIT


def test_who_owes_still_owes_after_idling() -> None:
    for seed in CASES:
        run, before = returned(seed, debt=True)
        others = max(run.counter("busy"), run.counter("other"))
        assert run.counter("idler") >= before
        assert before > others, "or there is no debt to keep"
        attempt = run.dispatch()
        assert attempt is not None
        assert attempt.whose[1] != "idler"


def test_twice_the_weight_gets_twice_the_service_but_for_the_bound() -> None:
    for seed in CASES:
        dice = dice_of(seed)
        weight = dice.choice([1, 2, 5])
        run = QueueAlone(dice.randint(1, 6), {"light": weight, "heavy": 2 * weight})
        watch = BoundsWatch(run)
        for _ in range(150):
            for name in ("light", "heavy"):
                while run.queue.backlog("t", name).requests < 8:
                    run.put(name, dice.randint(1, 10) * UNIT)
            while run.dispatch() is not None:
                pass
            attempt = dice.choice(run.running)
            run.end(attempt, attempt.charge * dice.choice([0, 1, 2]))
        heavy, light = (run.got["t", name] for name in ("heavy", "light"))
        assert abs(heavy - 2 * light) <= 2 * weight * watch.gap_bound
        assert light > 0


def test_who_sends_what_takes_long_has_twice_its_part_of_the_slots_at_most() -> None:
    """Its tokens come slowly, so by them alone it would have nearly all slots in the end."""
    run = QueueAlone(12, {"slow": 1, "quick": 2})
    watch, most, held = BoundsWatch(run), most_in_flight(1, 3, 12), []
    for _ in range(300):
        for name in ("slow", "quick"):
            while run.queue.backlog("t", name).requests < 20:
                run.put(name, UNIT)
        while run.dispatch() is not None:
            watch.look()
        mine = [attempt for attempt in run.running if attempt.whose[1] == "slow"]
        held.append(len(mine))
        for attempt in [*mine[: len(held) % 2], *(each for each in run.running if each not in mine)]:
            run.end(attempt, attempt.charge)
        watch.look()
    assert max(held) == held[-1] == most == 8
    assert watch.worst_lag <= watch.lag_bound, "and no credit for the rest"


def test_who_waits_alone_may_have_all_slots() -> None:
    run = QueueAlone(12, {"slow": 1})
    for number in range(13):
        run.put("slow" if number else "quick", UNIT)
    while run.dispatch() is not None:
        pass
    assert len(run.running) == 12
    quick = next(attempt for attempt in run.running if attempt.whose[1] == "quick")
    run.end(quick, UNIT)
    assert run.dispatch() is not None


def test_where_all_have_what_they_may_the_limit_is_none() -> None:
    run = QueueAlone(12, {})
    for _ in range(12):
        for name in "ab":
            run.put(name, UNIT)
    while run.dispatch() is not None:
        pass
    run.end(run.running[0], UNIT)
    assert run.queue.next(1) is not None, "slots were lost meanwhile"
    assert run.dispatch() is not None


def test_names_of_tenants_mean_nothing() -> None:
    for seed in CASES:
        plain, renamed = (served(seed, names) for names in ("abcd", "dacb"))
        assert [("abcd".index(name), number) for name, number in plain] == [
            ("dacb".index(name), number) for name, number in renamed
        ]


def served(seed: int, names: str) -> list[tuple[str, int]]:
    dice = dice_of(seed)
    run = QueueAlone(3, dict(zip(names, (1, 2, 3, 4), strict=True)))
    for place, name in enumerate(names):
        run.accounts.of("t", name).settled = 7 * place + 1  # no ties, which the name would break
        run.put(name, dice.randint(1, 10**9))
    for _ in range(100):
        run.put(names[dice.randrange(4)], dice.randint(1, 10**9))
    found = []
    while all(name in run.backlogged() for name in names):
        attempt = run.dispatch()
        if attempt is None:
            ended = run.running[dice.randrange(3)]
            run.end(ended, dice.randint(1, 10**9))
        else:
            found.append((attempt.whose[1], attempt.request.origin.offset))
    return found


def test_a_tier_that_comes_back_is_served_next_if_it_owes_nothing() -> None:
    """Property 14's part of the order: what frees next goes to interactive work, however much batch waits."""
    for seed in CASES:
        dice = dice_of(seed)
        run = QueueAlone(4, {}, tier_shares(DEFAULT_TIERS))
        for _ in range(dice.randint(5, 60)):
            run.put(dice.choice("xyz"), dice.randint(1, 10) * UNIT, "batch")
        for _ in range(dice.randint(4, 40)):
            while run.dispatch() is not None:
                pass
            if run.running:
                attempt = dice.choice(run.running)
                run.end(attempt, attempt.charge)
        run.put("x", UNIT, "batch")
        wanted = run.put("late", 100 * UNIT, "interactive")
        if len(run.running) == run.slots:
            run.end(run.running[0], run.running[0].charge)
        chosen = run.dispatch()
        assert chosen is not None
        assert chosen.request is wanted
