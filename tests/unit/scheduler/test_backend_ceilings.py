"""A backend is given no more than it takes in a minute: while it is full others take the work, and nothing fails for it."""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bus.messages import message_of
from headrace.contracts.checkpoints import BackendPaced, Forgotten
from headrace.contracts.commands import Cancel, Run
from headrace.contracts.explanations import Gate
from headrace.contracts.ids import boot_id
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import Spent
from headrace.contracts.reports import PerMinute, Report
from headrace.contracts.topics import TopicKind
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding
from headrace.scheduler.decisions.is_it_over_its_ceiling import charged, opens_us
from headrace.scheduler.decisions.what_does_a_backend_take import ceilings_of
from headrace.scheduler.state.backend_ceilings import BackendCeilings
from tests.support.scheduler.asking import asked_why
from tests.support.scheduler.limited_backends import SIXTY, Pool, kept
from tests.support.scheduler.pure import WALL, place, policy
from tests.support.scheduler.reports import held_of

_SECOND_US = 1_000_000


def most_in(at_us: list[int], window_us: int) -> int:
    """The most of these instants in any time of that length."""
    found = first = 0
    for last, now_us in enumerate(at_us):
        while now_us - at_us[first] >= window_us:
            first += 1
        found = max(found, last - first + 1)
    return found


@given(st.integers(1, 5_000), st.lists(st.integers(0, 20_000_000), max_size=20))
def test_in_no_minute_and_in_no_ten_seconds_is_a_backend_given_more_than_it_takes(
    limit: int, pauses_us: list[int]
) -> None:
    """Who always wants more, but for some pauses, gets nine tenths of it."""
    (ceiling,) = ceilings_of(PerMinute(requests=limit))
    now_us = due_us = 0
    at_us: list[int] = []
    pauses = iter(pauses_us)
    for number in range(min(2 * limit + 10, 400)):
        now_us = max(now_us, opens_us(due_us, ceiling)) + (next(pauses, 0) if number % 7 == 3 else 0)
        due_us = charged(due_us, now_us, 1, ceiling)
        at_us.append(now_us)
    assert most_in(at_us, 60 * _SECOND_US) <= limit
    if limit >= 60:
        assert most_in(at_us, 10 * _SECOND_US) <= -(-limit // 6)
    assert now_us - sum(pauses_us) <= 70 * _SECOND_US * len(at_us) // limit


def test_what_is_told_makes_the_ceilings() -> None:
    assert ceilings_of(None) == []
    both = ceilings_of(PerMinute(requests=60, tokens=6_000))
    assert [(each.spent, each.amount, each.at_once) for each in both] == [
        (Spent.REQUESTS, 60, 1),
        (Spent.TOKENS, 6_000, 100),
    ]


def test_a_backend_that_has_what_it_takes_is_passed_over_while_others_take_the_work() -> None:
    pool = Pool({"api": SIXTY, "own": None})
    for _ in range(40):
        pool.case.submit()
    pool.live(1)
    assert sum(pool.counts().values()) == 40, "nobody waits for it"
    assert 1 <= pool.counts()["api"] <= 2
    assert not pool.case.results()


def test_what_only_it_could_take_waits_and_never_fails() -> None:
    pool = Pool({"api": SIXTY})
    for _ in range(20):
        pool.case.submit()
    pool.live(10)
    assert 8 <= pool.counts()["api"] <= 10
    pool.live(16)
    assert pool.counts()["api"] == 20
    assert not pool.case.results(), "the owner has ended none of them"


def test_tokens_are_charged_as_expected_and_settled_as_taken() -> None:
    """6,000 a minute, 90 a second, and 100 at once: each takes 100, though 1,001 are expected of it."""
    pool = Pool({"api": PerMinute(tokens=6_000)})
    for _ in range(5):
        pool.case.submit(prompt_tokens=1_000)
    pool.case.run(200)
    closed_ms = pool.state.backend_ceilings.closed["api"] - pool.case.world.now_ms
    assert 9_500 < closed_ms <= 10_100
    pool.live(8)
    assert pool.counts()["api"] == 5


def test_what_never_began_wasnt_given_to_it() -> None:
    pool = Pool({"api": PerMinute(requests=1)})
    pool.case.submit()
    pool.case.run(200)
    (run,) = pool.case.commands(Run)
    pool.case.answer(run, Verdict.RETRY_AT, started=False, worker="api", boot=pool.boots["api"])
    pool.report()
    pool.case.run(400)
    assert len(pool.case.commands(Run)) == 2


def test_a_report_of_more_tokens_raises_what_is_charged() -> None:
    pool = Pool({"api": PerMinute(tokens=60_000)})
    pool.took_ms = (60_000, 60_000)
    pool.case.submit(prompt_tokens=100, max_tokens=None)
    pool.live(1)
    ((run, _),) = pool.held["api"].values()
    held = held_of(run, tokens=20_000)
    assert not pool.state.backend_ceilings.closed
    report = Report(
        worker="api", boot=pool.boots["api"], epoch=1, lane=0, position=10, limit=40, held=(held,),
        per_minute=pool.takes["api"],
    )  # fmt: skip
    pool.case.world.append(message_of(place(TopicKind.WORKERS), report))
    pool.case.run(100)
    assert pool.state.backend_ceilings.closed["api"] - pool.case.world.now_ms > 18_000


def test_a_takeover_and_a_new_boot_of_the_worker_keep_what_is_owed() -> None:
    pool = Pool({"api": PerMinute(requests=6)})
    for _ in range(3):
        pool.case.submit()
    pool.live(3)
    assert pool.counts()["api"] == 1
    (record,) = [each for each in kept(pool) if isinstance(each, BackendPaced)][-1:]
    assert (record.per_minute, set(record.debts)) == (pool.takes["api"], {"requests/66666666"})
    pool.taken_over()
    pool.live(6)
    assert pool.state.open
    assert pool.counts()["api"] == 1
    pool.boots["api"] = boot_id(WALL + 50, bytes(10))
    pool.live(1)
    assert pool.counts()["api"] == 1
    pool.live(4)
    assert pool.counts()["api"] == 2, (
        "11.1 s after the first, whoever owns the pool and whichever boot serves"
    )


@pytest.mark.parametrize("seed", range(4))
def test_however_often_the_owner_changes_a_backend_is_given_no_more_than_it_takes(seed: int) -> None:
    dice = Random(seed)  # noqa: S311 - a run that can be had again, not a secret
    pool = Pool({"api": PerMinute(requests=120)})
    for _ in range(200):
        pool.case.submit()
    for _ in range(12):
        pool.live(dice.uniform(0.5, 12))
        pool.taken_over()
    at_us = [at_ms * 1_000 for at_ms in pool.started["api"]]
    assert most_in(at_us, 60 * _SECOND_US) <= 120
    assert most_in(at_us, 10 * _SECOND_US) <= 20
    assert len(at_us) > 40


def test_nothing_is_kept_of_a_backend_once_nothing_is_owed_and_its_worker_is_gone() -> None:
    pool = Pool({"api": SIXTY})
    pool.case.submit()
    pool.live(3)
    assert isinstance(kept(pool)[-1], Forgotten)
    assert pool.state.backend_ceilings
    pool.boots = {}
    pool.live(8)
    assert not pool.state.workers.live
    assert not pool.state.backend_ceilings


def test_a_worker_that_says_no_more_of_it_is_given_what_it_can_work_on() -> None:
    pool = Pool({"api": PerMinute(requests=1)})
    for _ in range(3):
        pool.case.submit()
    pool.live(1)
    assert pool.counts()["api"] == 1
    pool.takes["api"] = None
    pool.live(2)
    assert pool.counts()["api"] == 3


def test_it_says_why_and_shows_it() -> None:
    pool = Pool({"api": PerMinute(requests=6)})
    waits = [pool.case.submit(), pool.case.submit()]
    pool.live(1)
    answer, why = asked_why(pool.case, waits[1].id)
    (closed,) = why.closed
    assert (closed.gate, closed.limit) == (Gate.BACKEND_CEILING, 6)
    assert closed.until_ms is not None
    assert 8_000 < closed.until_ms - answer.as_of_ms <= 11_200
    core = pool.case.owner.core
    assert core is not None
    assert [each.binds for each in core._holding.figures()] == [Binding.CEILING]


def test_nobody_is_stopped_for_a_slot_that_its_backend_may_not_fill() -> None:
    """Though what was released last would be stopped first."""
    pool = Pool({"own": None, "api": PerMinute(requests=6)}, policy(headroom_percent=50))
    pool.took_ms, pool.limit = (600_000, 600_000), 1
    pool.report()
    pool.case.run(100)
    for _ in range(2):
        pool.case.submit()
    pool.live(1)
    assert pool.counts() == {"own": 1, "api": 1}
    for _ in range(4):
        pool.case.submit(into="interactive")
    pool.live(3)
    stopped = {cancel.boot for cancel in pool.case.commands(Cancel)}
    assert stopped == {pool.boots["own"]}


def test_one_backends_debts_are_no_others_and_a_new_limit_goes_on_from_them() -> None:
    made = BackendCeilings()
    made.take("a", PerMinute(requests=6), 0)
    made.take("b", PerMinute(requests=6), 0)
    assert not made.closed
    made.charge("a", 10, 0)
    assert set(made.closed) == {"a"}
    made.take("a", PerMinute(requests=60), 1_112)
    assert made.closed["a"] in (2_112, 2_113), "nine tenths of a request, ten times as fast"
    assert list(made.forget_gone({"a", "b"}, 2_200)) == []
    made.turn(2_200)
    assert list(made.forget_gone({"b"}, 2_200)) == ["a"]
    assert (made.told("a"), made.told("b")) == (None, PerMinute(requests=6))


def test_a_limit_of_nothing_is_no_limit_that_a_report_can_say() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"requests": 0}, PerMinute)
