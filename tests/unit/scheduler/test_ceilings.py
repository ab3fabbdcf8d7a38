"""Who is over a ceiling waits until there is room below it: nobody else waits for that, and nothing ends in an error."""

from datetime import timedelta

from headrace.contracts.codec import decode
from headrace.contracts.commands import Run
from headrace.contracts.explanations import Closed, Gate
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import QueueState
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import CeilingPolicy
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import LATEST_MS, Times, Usage
from tests.support.scheduler.asking import asked_why
from tests.support.scheduler.case import BOOT
from tests.support.scheduler.ceilings import REQUESTS, TOKENS, live, ran, served
from tests.support.scheduler.pure import place
from tests.support.scheduler.reports import held_of


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


def test_it_says_which_ceiling_and_until_when_and_estimates_by_it() -> None:
    case = served(REQUESTS)
    for _ in range(3):
        case.submit()
    live(case, 1)
    waits = [case.submit(), case.submit()]
    case.run(300)
    answer, why = asked_why(case, waits[1].id)
    (closed,) = why.closed
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
    why = asked_why(case, waits.id)[1]
    assert [(each.gate, each.until_ms) for each in why.closed] == [(Gate.CEILING, LATEST_MS)]


def test_a_report_of_more_tokens_raises_what_is_charged() -> None:
    case = served(CeilingPolicy(tokens=6_000, at_once=1_000))
    case.submit(prompt_tokens=100, max_tokens=None)
    case.run(200)
    (run,) = case.commands(Run)
    held = held_of(run, tokens=5_000)
    case.report(limit=40, held=(held,))
    case.run(100)
    core = case.owner.core
    assert core is not None
    assert core.state.ceilings.closed["a"] - case.world.now.boot_ms > 35_000
