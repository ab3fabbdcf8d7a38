"""Who is over a ceiling waits until there is room below it: nobody else waits for that, and nothing ends in an error."""

from datetime import timedelta
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import message_of
from headrace.contracts.checkpoints import Debt, Paced
from headrace.contracts.codec import decode
from headrace.contracts.commands import Run
from headrace.contracts.control import Query
from headrace.contracts.explanations import Closed, Gate
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import QueueState
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import CeilingPolicy, CostWeights, Policy, Spent
from headrace.contracts.replies import Answer
from headrace.contracts.reports import Held
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import LATEST_MS, MOST_TOKENS, Times, Usage
from headrace.scheduler.core import pacing
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.decisions.estimate_cost import most_tokens
from headrace.scheduler.decisions.is_it_over_its_ceiling import (
    Ceiling,
    ceiling_of,
    charged,
    opens_us,
    settled,
)
from headrace.scheduler.state.ceilings import Ceilings
from tests.support.scheduler.case import BOOT, Case
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import place, policy

TOKENS = CeilingPolicy(tokens=600, at_once=100)
REQUESTS = CeilingPolicy(requests=6, at_once=2)

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


@given(st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 9), st.integers(0, 9))
def test_a_charge_stands_for_no_fewer_tokens_than_it_was_made_of(
    prompt: int, completion: int, price: int, other: int
) -> None:
    weights = CostWeights(prompt=price, completion=other)
    found = most_tokens(prompt * price + completion * other, weights)
    assert found >= prompt * bool(price) + completion * bool(other)
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


def with_ceilings(*of_a: CeilingPolicy, pool: tuple[CeilingPolicy, ...] = ()) -> Policy:
    """Of tenant a, and of the pool."""
    made = policy()
    tenants = {**made.tenants, "a": msgspec.structs.replace(made.tenants["a"], ceilings=of_a)}
    pools = {name: msgspec.structs.replace(each, ceilings=pool) for name, each in made.pools.items()}
    return msgspec.structs.replace(made, tenants=tenants, pools=pools)


def served(*of_a: CeilingPolicy, pool: tuple[CeilingPolicy, ...] = (), limit: int = 40) -> Case:
    made = Case(with_ceilings(*of_a, pool=pool))
    made.run()
    made.report(limit=limit)
    made.run(100)
    return made


def ran(case: Case) -> list[str]:
    return [run.request.tenant for run in case.commands(Run)]


def live(case: Case, seconds: int, *, limit: int = 40, epoch: int = 1, held: tuple[Held, ...] = ()) -> None:
    """The worker reports twice a second and ends all that it was given at once."""
    done = len(case.commands(Run)) if held else getattr(case, "done", 0)
    for _ in range(2 * seconds):
        case.run(500)
        for run in case.commands(Run)[done:]:
            used = Usage(prompt_tokens=60, completion_tokens=40)
            case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=used)
        done = len(case.commands(Run))
        case.report(limit=limit, epoch=epoch, held=held)
    case.done = done  # type: ignore[attr-defined]


def test_requests_over_a_ceiling_wait_for_it_and_others_dont() -> None:
    case = served(REQUESTS)
    for _ in range(6):
        case.submit()
        case.submit(tenant="b")
    live(case, 3)
    assert sorted(ran(case)) == ["a"] * 2 + ["b"] * 6
    live(case, 20)
    assert ran(case).count("a") == 4
    live(case, 22)
    assert ran(case).count("a") == 6
    assert {status for _, status, _ in case.results()} <= {Status.SUCCEEDED}


def test_tokens_are_charged_as_expected_and_settled_as_taken() -> None:
    """600 a minute, 100 at once: each takes 100, though 361 are expected of it."""
    case = served(TOKENS)
    for _ in range(5):
        case.submit(prompt_tokens=360)
    case.run(500)
    assert ran(case) == ["a"]
    assert case.owner.core is not None
    waits_ms = case.owner.core.state.ceilings.closed["a"] - case.world.now.boot_ms
    assert 25_000 < waits_ms <= 26_100
    live(case, 1)
    assert ran(case) == ["a"] * 2, "it took 100, so the next may run"
    live(case, 10)
    assert len(ran(case)) <= 3
    live(case, 45)
    assert 4 <= ran(case).count("a") <= 5


def test_what_was_handed_back_unstarted_wasnt_spent() -> None:
    case = served(CeilingPolicy(requests=1, at_once=1))
    case.submit()
    case.run(200)
    (run,) = case.commands(Run)
    case.answer(run, Verdict.RETRY_AT, started=False)
    case.report(limit=40)
    case.run(400)
    assert len(case.commands(Run)) == 2


def test_who_is_paced_expires_as_others_do() -> None:
    case = served(CeilingPolicy(requests=1, at_once=1))
    case.submit()
    case.run(200)
    late = case.submit(start_by_ms=case.world.now.wall_ms + 500)
    case.run(1_500)
    assert case.results() == [(late.id, Status.EXPIRED, FailureKind.QUEUE_TIMEOUT)]


def test_a_pools_own_ceiling_lets_nothing_be_released() -> None:
    case = served(pool=(CeilingPolicy(requests=60, at_once=3),))
    for _ in range(4):
        case.submit()
        case.submit(tenant="b")
    case.run(200)
    assert len(ran(case)) == 3
    core = case.owner.core
    assert core is not None
    assert core.fleet.over_ceiling
    live(case, 5)
    assert 6 <= len(ran(case)) <= 8
    live(case, 5)
    assert (len(ran(case)), core.fleet.over_ceiling) == (8, False)


def test_slots_that_a_ceiling_keeps_free_dont_count_as_waiting_for_the_next_command() -> None:
    """Or more and more would be sent ahead, for slots that nobody may fill."""
    case = served(pool=(CeilingPolicy(requests=60, at_once=2),), limit=2)
    for _ in range(4):
        case.submit()
    case.run(200)
    now_ms = case.world.now.wall_ms
    for run in case.commands(Run):
        case.answer(
            run, Verdict.DONE, status=Status.SUCCEEDED, usage=Usage(completion_tokens=3), boot=BOOT,
            times=Times(started_ms=now_ms - 100, finished_ms=now_ms),
        )  # fmt: skip
    case.report(limit=2)
    case.run(200)
    core = case.owner.core
    assert core is not None
    assert core.state.ceilings.pool_is_closed
    assert not core.state.limits[BOOT].freed


def asked(case: Case, request_id: str) -> Answer:
    query = Query(id=request_id, nonce=f"n{case.world.now_ms}", gateway=0, why=True)
    case.world.append(message_of(place(TopicKind.CONTROL), query))
    case.run(300)
    answers = [decode(TopicKind.REPLIES, r.header) for r in case.world.logs[place(TopicKind.REPLIES)]]
    found = [answer for answer in answers if isinstance(answer, Answer) and answer.nonce == query.nonce]
    return found[-1]


def test_it_says_which_ceiling_and_until_when_and_estimates_by_it() -> None:
    case = served(REQUESTS)
    for _ in range(3):
        case.submit()
    live(case, 1)
    waits = [case.submit(), case.submit()]
    case.run(300)
    answer = asked(case, waits[1].id)
    assert answer.why is not None
    (closed,) = answer.why.closed
    assert isinstance(closed, Closed)
    assert (closed.gate, closed.limit) == (Gate.CEILING, 6)
    assert closed.until_ms is not None
    assert 0 < closed.until_ms - answer.as_of_ms <= 10_000
    assert answer.estimated_wait_ms is not None
    assert 20_000 < answer.estimated_wait_ms <= 30_000
    case.run(1_100)
    states = [decode(TopicKind.QUEUE_STATE, r.header) for r in case.world.logs[place(TopicKind.QUEUE_STATE)]]
    told = [state for state in states if isinstance(state, QueueState) and state.tier == "batch"][-1]
    assert (told.depth, told.paced_depth, told.frozen_depth) == (3, 3, 0)


def test_a_gate_that_opens_after_the_last_instant_that_is_told_is_told_as_that() -> None:
    case = served(CeilingPolicy(tokens=1, per=timedelta(days=365)))
    case.submit()
    live(case, 1)
    waits = case.submit()
    case.run(300)
    answer = asked(case, waits.id)
    assert answer.why is not None
    assert [(each.gate, each.until_ms) for each in answer.why.closed] == [(Gate.CEILING, LATEST_MS)]


def taken_over(case: Case) -> SimScheduler:
    """Another replica, which knows only what the logs say."""
    case.owner.crash()
    setting = case.owner.setting
    case.owner = SimScheduler(case.world, 0)
    case.owner.setting = setting
    return case.owner


def test_what_is_owed_survives_a_change_of_owner() -> None:
    case = served(CeilingPolicy(requests=2, at_once=1))
    for _ in range(3):
        case.submit()
    live(case, 5)
    assert ran(case) == ["a"]
    owner = taken_over(case)
    live(case, 8, epoch=2)
    assert ran(case) == ["a"]
    assert owner.core is not None
    assert owner.core.state.open
    live(case, 18, epoch=2)
    assert ran(case) == ["a"] * 2, "30 s after the first, whoever owns the pool"


def test_what_was_released_since_the_last_checkpoint_counts_for_the_next_owner_as_well() -> None:
    """The worker holds it, and says so; nobody else knows that it was charged."""
    case = served(CeilingPolicy(tokens=6_000, at_once=1))
    case.run(300)
    core = case.owner.core
    assert core is not None
    case.submit(prompt_tokens=1_000)
    case.submit(prompt_tokens=1_000)
    while not case.commands(Run):
        case.run(25)
    (run,) = case.commands(Run)
    case.owner.commit = None
    owner = taken_over(case)
    held = Held(
        attempt=run.attempt, id=run.request.id, tenant="a", tier="batch", origin=run.origin, attempts=1,
        charge=run.charge, running=True,
    )  # fmt: skip
    for _ in range(14):
        case.run(500)
        case.report(limit=40, epoch=2, held=(held,))
    assert owner.core is not None
    assert owner.core.state.open
    assert owner.core.state.held.of(run.request.id) is not None
    assert len(case.commands(Run)) == 1
    assert owner.core.state.ceilings.closed["a"] > case.world.now.boot_ms


def test_who_is_known_to_the_checkpoint_isnt_charged_twice() -> None:
    case = served(CeilingPolicy(tokens=600, at_once=1))
    case.submit(prompt_tokens=1_000)
    case.run(2_500)
    (run,) = case.commands(Run)
    assert case.owner.core is not None
    until_ms = case.owner.core.state.ceilings.closed["a"]
    owner = taken_over(case)
    held = Held(
        attempt=run.attempt, id=run.request.id, tenant="a", tier="batch", origin=run.origin, attempts=1,
        charge=run.charge, running=True,
    )  # fmt: skip
    for _ in range(14):
        case.run(500)
        case.report(limit=40, epoch=2, held=(held,))
    assert owner.core is not None
    assert owner.core.state.held.of(run.request.id) is not None
    assert abs(owner.core.state.ceilings.closed["a"] - until_ms) <= 1_000


class LiveWorker:
    """Takes what it is told to run, says twice a second what it holds, and ends each after a second or two."""

    def __init__(self, case: Case, dice: Random) -> None:
        self.case, self.dice = case, dice
        self.held: dict[AttemptId, tuple[Run, int]] = {}
        self.started_ms: list[int] = []
        self._read = 0

    def turn(self) -> None:
        now_ms, commands = self.case.world.now_ms, self.case.commands(Run)
        for run in commands[self._read :]:
            self.held[run.attempt] = run, now_ms + self.dice.randint(200, 2_000)
            self.started_ms.append(now_ms)
        self._read = len(commands)
        for run, ends_ms in list(self.held.values()):
            if ends_ms <= now_ms:
                self.case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=Usage(completion_tokens=3))
                del self.held[run.attempt]

    def report(self) -> None:
        core = self.case.owner.core
        held = tuple(
            Held(
                attempt=run.attempt, id=run.request.id, tenant="a", tier="batch", origin=run.origin,
                attempts=run.attempts, charge=run.charge, running=True,
            )
            for run, _ in self.held.values()
        )  # fmt: skip
        self.case.report(limit=40, epoch=1 if core is None else core.state.epoch, held=held)


def test_however_often_the_owner_changes_no_more_is_released_than_the_ceiling_says() -> None:
    """Two seconds are left for what is between an owner's clock and a worker's."""
    took_over = 0
    for seed in range(8):
        dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
        case = served(CeilingPolicy(requests=60, at_once=20))
        worker = LiveWorker(case, dice)
        for _ in range(150):
            case.submit()
        crash_ms = case.world.now_ms + dice.randint(100, 1_500)
        for _ in range(600):
            case.run(100)
            worker.turn()
            if dice.random() < 0.2:
                worker.report()
            if case.world.now_ms >= crash_ms:
                taken_over(case)
                took_over += 1
                crash_ms = case.world.now_ms + dice.randint(500, 10_000)
        at = worker.started_ms
        assert len(at) > 30
        for first, since_ms in enumerate(at):
            for last in range(first, len(at)):
                assert (last - first + 1 - 20) * 1_000 <= at[last] - since_ms + 2_000, (seed, first, last)
    assert took_over > 40


def paced_ms(ahead_ms: int) -> int:
    """For how long a tenant is paced that owes 10 s, by the clock of an owner that is so far ahead of the last one's."""
    case = Case(with_ceilings(CeilingPolicy(requests=6, at_once=1)))
    state = PoolState.empty(case.owner.setting, 2)
    state.now = case.world.now
    debt = Debt(due_ms=state.now.wall_ms + 10_000 - ahead_ms, owed_ms=10_000)
    record = Paced(tenant="a", through=AttemptId(1, 5), debts={"requests/60000000": debt})
    pacing.owe(state, {"a": record, "gone": record, None: record})
    assert state.ceilings.knows("a", AttemptId(1, 5))
    assert not state.ceilings.knows("a", AttemptId(1, 6))
    return state.ceilings.closed.get("a", state.now.boot_ms) - state.now.boot_ms


def test_a_clock_that_is_behind_paces_nobody_longer() -> None:
    assert [paced_ms(ahead_ms) for ahead_ms in (-3_600_000, 0)] == [10_000, 10_000]


def test_time_that_passed_before_the_next_owner_came_counts() -> None:
    assert [paced_ms(ahead_ms) for ahead_ms in (4_000, 3_600_000)] == [6_000, 0]


def test_a_report_of_more_tokens_raises_what_is_charged() -> None:
    case = served(CeilingPolicy(tokens=6_000, at_once=1_000))
    case.submit(prompt_tokens=100, max_tokens=None)
    case.run(200)
    (run,) = case.commands(Run)
    held = Held(
        attempt=run.attempt, id=run.request.id, tenant="a", tier="batch", origin=run.origin, attempts=1,
        charge=run.charge, running=True, tokens=5_000,
    )  # fmt: skip
    case.report(limit=40, held=(held,))
    case.run(100)
    core = case.owner.core
    assert core is not None
    assert core.state.ceilings.closed["a"] - case.world.now.boot_ms > 35_000
