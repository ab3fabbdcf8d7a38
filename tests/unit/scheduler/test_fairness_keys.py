"""Fairness keys inside a tenant: they share as tenants of a tier do, whoever sends none has one key, and lies cost only
their sender.
"""

from random import Random

from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.values import Usage
from headrace.scheduler.decisions.which_flow import MOST_OWN, NO_KEY, SHARED, shared_flow, which_flow
from headrace.scheduler.state.tracked import Tracked
from tests.support.scheduler.fair_runs import (
    CASES,
    FAR,
    UNFAIR_GAP,
    UNFAIR_LAG,
    RandomRun,
    dice_of,
    play,
    schedule_of,
)
from tests.support.scheduler.flood import Flood
from tests.support.scheduler.keys_alone import NOBODY, KeysAlone
from tests.support.scheduler.queue_alone import UNIT, Attempt, QueueAlone, request

MOST_FLOWS = MOST_OWN + len(SHARED) + 1


def key_of(attempt: Attempt) -> str:
    return attempt.request.record.fairness_key or NOBODY


def test_keys_stay_within_the_bounds_of_tenants() -> None:
    wrong = {seed: found for seed in CASES if (found := RandomRun(seed, keys=True).go())}
    assert not wrong


def test_found_schedules_come_near_the_bounds_of_keys_and_not_beyond() -> None:
    assert FAR <= play(schedule_of(UNFAIR_LAG), keys=True).lag <= 1
    assert FAR <= play(schedule_of(UNFAIR_GAP), keys=True).gap <= 1


class WithoutLimit(QueueAlone):
    """Tenants may have all slots, as keys may."""

    def _next(self) -> Tracked | None:
        return self.queue.next(1_000)


def served(run: QueueAlone, dice: Random) -> list[tuple[str, int]]:
    """Who was served, in a run of this seed: as a name, and the request's number."""
    found = []
    for name in "abcd":
        run.put(name, dice.randint(1, 10**9))
    for _ in range(200):
        for name in "abcd":
            if dice.random() < 0.2:
                run.put(name, dice.randint(1, 10**9))
        while (attempt := run.dispatch()) is not None:
            found.append((run.book_of(attempt)[1], attempt.request.origin.offset))
        for attempt in dice.sample(run.running, dice.randint(0, len(run.running))):
            run.end(attempt, dice.randint(0, 10**9))
    return found


def test_keys_are_served_as_tenants_of_a_tier_would_be() -> None:
    for seed in CASES[:20]:
        slots = 1 + seed % 4
        keys, tenants = KeysAlone(slots, "abcd"), WithoutLimit(slots, {})
        assert served(keys, dice_of(seed)) == served(tenants, dice_of(seed))


def test_requests_without_a_key_are_one_key_and_a_second_user_gets_half() -> None:
    run = KeysAlone(1, ("x", NOBODY))
    for _ in range(20):
        run.put(NOBODY, UNIT)
    run.dispatch()
    for _ in range(20):
        run.put("x", UNIT)
    order = []
    for _ in range(20):
        for each in list(run.running):
            run.end(each, UNIT)
        attempt = run.dispatch()
        assert attempt is not None
        order.append(key_of(attempt))
    assert order.count("x") == 10


def test_a_key_that_has_idled_has_no_credit() -> None:
    run = KeysAlone(1, "xy")
    run.put("x", UNIT)
    for _ in range(30):
        run.put("y", UNIT)
    for _ in range(20):
        attempt = run.dispatch()
        assert attempt is not None
        run.end(attempt, UNIT)
    for _ in range(10):
        run.put("x", UNIT)
    order = []
    for _ in range(6):
        attempt = run.dispatch()
        assert attempt is not None
        order.append(key_of(attempt))
        run.end(attempt, UNIT)
    assert order.count("x") == 3


def test_a_key_that_owes_still_owes_after_idling() -> None:
    run = KeysAlone(1, "xy")
    run.put("y", UNIT)
    run.put("x", UNIT)
    for _ in range(2):
        attempt = run.dispatch()
        assert attempt is not None
        run.end(attempt, 100 * UNIT if key_of(attempt) == "x" else UNIT)
    for _ in range(30):
        run.put("y", UNIT)
    run.checkpoint()
    run.put("x", UNIT)
    for _ in range(30):
        attempt = run.dispatch()
        assert attempt is not None
        assert key_of(attempt) == "y"
        run.end(attempt, UNIT)


def test_who_sends_no_keys_costs_nothing() -> None:
    run = QueueAlone(2, {"a": 1})
    for _ in range(5):
        run.put("a", UNIT)
    while (attempt := run.dispatch()) is not None:
        run.end(attempt, UNIT)
    assert run.accounts.flows == {}


def test_however_many_keys_there_are_the_memory_is_bounded_and_all_is_forgotten_in_the_end() -> None:
    run = QueueAlone(8, {})
    for number in range(5_000):
        run.put("a", UNIT, fairness_key=f"user-{number}")
        if number % 3 == 0:
            attempt = run.dispatch()
            assert attempt is not None
            run.end(attempt, UNIT)
        if number % 100 == 0:
            run.checkpoint()
    assert len(run.accounts.flows["t", "a"]) <= MOST_FLOWS
    assert len(run.queue._tiers["t"].tenants["a"].flows) <= MOST_FLOWS
    assert len(run.queue._tiers["t"].tenants["a"].turns) <= 4 * MOST_FLOWS + 64
    while (attempt := run.dispatch()) is not None:
        run.end(attempt, UNIT)
    run.put("b", 100 * 5_000 * UNIT)
    run.put("b", UNIT)
    for _ in range(2):
        attempt = run.dispatch()
        assert attempt is not None
        run.end(attempt, attempt.charge)
    run.checkpoint()
    assert run.accounts.flows == {}


def test_a_key_that_shares_its_counter_keeps_its_order() -> None:
    for seed in range(3):
        dice, run = dice_of(seed), QueueAlone(4, {})
        last: dict[str, int] = {}
        for turn in range(600):
            for _ in range(3 if turn < 400 else 0):
                run.put("a", dice.randint(1, 9) * UNIT, fairness_key=f"user-{dice.randrange(700)}")
            for _ in range(2):
                attempt = run.dispatch()
                if attempt is not None:
                    key, number = key_of(attempt), attempt.request.origin.offset
                    assert last.get(key, 0) < number
                    last[key] = number
                    run.end(attempt, dice.randint(0, 20) * UNIT)
            run.checkpoint()


def test_a_flow_is_ones_own_while_there_is_room_and_nothing_of_it_waits_elsewhere() -> None:
    full = {f"k{number}": number + 100 for number in range(MOST_OWN)}
    assert which_flow(None, full, ()) == NO_KEY
    assert which_flow("k7", full, ()) == 107
    assert which_flow("x", full, ()) == shared_flow("x")
    assert which_flow("x", {}, ()) is None
    assert which_flow("x", {}, {shared_flow("x")}) == shared_flow("x")
    assert len({shared_flow(f"k{number}") for number in range(2_000)}) == len(SHARED)


def test_the_place_in_the_queue_counts_the_turns_of_other_keys() -> None:
    run = QueueAlone(1, {})
    for key in ("x", "y"):
        for _ in range(10):
            run.put("a", UNIT, fairness_key=key)
    first = run.put("a", UNIT, fairness_key="z")
    assert run.queue.ahead_of(first.record, first.order) == (2, 2 * UNIT, False), (
        "of equals the first key goes"
    )
    later = run.put("a", UNIT, fairness_key="z")
    assert run.queue.ahead_of(later.record, later.order) == (5, 5 * UNIT, False)
    order = []
    while (attempt := run.dispatch()) is not None:
        order.append(attempt.request)
        run.end(attempt, UNIT)
    assert (order.index(first), order.index(later)) == (2, 5)


def test_who_asks_where_a_new_key_would_stand_changes_nothing() -> None:
    run = QueueAlone(1, {})
    for _ in range(10):
        run.put("a", UNIT)
    asked = request(11, "a", "t", UNIT, fairness_key="z")
    assert run.queue.ahead_of(asked.record, asked.order) == (1, UNIT, False)
    assert run.accounts.flows == {}
    run.put("a", UNIT, fairness_key="x")
    flows = len(run.accounts.flows["t", "a"])
    assert run.queue.ahead_of(asked.record, asked.order) == (2, 2 * UNIT, False)
    assert len(run.accounts.flows["t", "a"]) == flows


class Users(Flood):
    """One slot, and two users of tenant a."""

    def __init__(self) -> None:
        super().__init__(None, limit=1)
        self.ran = 0
        """How many of its runs were looked at."""

    def ask(self, each: int) -> None:
        """So many requests of each user."""
        for _ in range(each):
            for key in ("x", "y"):
                self.submit(fairness_key=key, max_tokens=None)
        self.run(200)


def spending(flood: Users, costs: dict[str | None, int], count: int) -> list[str | None]:
    """The keys of so many runs, one after the other on one slot; each spends so many tokens."""
    found: list[str | None] = []
    while len(found) < count:
        run = flood.next_run(flood.ran)
        assert run is not None
        flood.ran += 1
        key = run.request.fairness_key
        found.append(key)
        flood.done.add(run.request.id)
        usage = Usage(prompt_tokens=1, completion_tokens=costs[key])
        flood.answer(run, Verdict.DONE, status=Status.SUCCEEDED, started=True, usage=usage)
    return found


def test_a_key_is_settled_on_what_its_requests_really_used() -> None:
    users = Users()
    users.ask(20)
    order = spending(users, {"x": 400, "y": 100}, 20)
    assert 3 <= order.count("x") <= 6


def test_after_a_takeover_keys_begin_alike_and_every_charge_is_taken_back() -> None:
    users = Users()
    users.ask(12)
    spending(users, {"x": 400, "y": 100}, 5)
    assert users.next_run(users.ran) is not None, "one is in flight"
    users.owner.crash()
    users.run(6_000)
    users.epoch = 2
    users.run(2_000)
    (flows,) = users.core.state.accounts.flows.values()
    assert sum(flow.in_flight for flow in flows._accounts.values()) == 1
    order = spending(users, {"x": 100, "y": 100}, 12)
    assert abs(order.count("x") - order.count("y")) <= 2
    spending(users, {"x": 100, "y": 100}, 7)
    users.run(500)
    assert all(
        not flow.in_flight
        for each in users.core.state.accounts.flows.values()
        for flow in each._accounts.values()
    )
