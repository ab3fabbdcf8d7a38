"""A hosted API says with each answer what is left of its limits: it is given no more, and refuses nothing."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.commands import Run
from headrace.contracts.explanations import Gate
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.reports import LONGEST_RESET_MS, MOST_PER_MINUTE, Allowed, Left
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding
from headrace.scheduler.decisions.what_has_a_backend_left import rests_of
from tests.support.scheduler.asking import asked_why
from tests.support.scheduler.hosted_api import Bucket, HostedPool, Window
from tests.support.scheduler.limited_backends import Pool

_LEFT = st.integers(-MOST_PER_MINUTE, MOST_PER_MINUTE)
lefts = st.none() | st.builds(
    Left,
    left=st.none() | st.integers(-10, 10) | _LEFT,
    reset_ms=st.integers(0, LONGEST_RESET_MS),
    limit=st.none() | st.integers(1, MOST_PER_MINUTE),
    steady=st.booleans(),
)
few = st.integers(0, 20)


@given(st.builds(Allowed, requests=lefts, tokens=lefts), few, st.integers(0, 10**6), st.integers(0, 10**9))
def test_whatever_is_said_nothing_waits_for_longer_than_a_minute(
    allowed: Allowed, on_the_way: int, tokens: int, boot_ms: int
) -> None:
    rests = rests_of(allowed, (on_the_way, tokens), boot_ms)
    assert rests is not None
    assert rests.opens_ms <= boot_ms + LONGEST_RESET_MS
    assert rests.until_ms <= boot_ms + LONGEST_RESET_MS


@given(st.integers(0, 20), few, st.integers(1, LONGEST_RESET_MS), st.integers(0, 10**9))
def test_so_many_are_given_as_are_left_and_not_on_the_way(
    left: int, on_the_way: int, reset_ms: int, boot_ms: int
) -> None:
    rests = rests_of(Allowed(requests=Left(left=left, reset_ms=reset_ms)), (on_the_way, 0), boot_ms)
    assert rests is not None
    given_ = 0
    while rests.opens_ms <= boot_ms:
        rests, given_ = rests.less(0), given_ + 1
    assert given_ == max(0, left - on_the_way)
    assert rests.opens_ms == boot_ms + reset_ms


@given(st.integers(1, 6_000), st.integers(0, 50), st.integers(0, 10**9))
def test_what_comes_back_evenly_is_waited_for_one_by_one(limit: int, short: int, boot_ms: int) -> None:
    said = Left(left=-short, reset_ms=LONGEST_RESET_MS, limit=limit, steady=True)
    rests = rests_of(Allowed(requests=said), (0, 0), boot_ms)
    assert rests is not None
    waits_ms = rests.opens_ms - boot_ms
    assert waits_ms == LONGEST_RESET_MS or (waits_ms - 1) * limit < 60_000 * (short + 1) <= waits_ms * limit


def with_many(pool: HostedPool, count: int) -> HostedPool:
    for _ in range(count):
        pool.case.submit(max_tokens=4)
    return pool


def test_a_window_is_filled_and_never_overrun() -> None:
    for says_limit in (True, False):
        api = Window(20, 10_000, says_limit=says_limit)
        pool = with_many(HostedPool(api), 150)
        pool.live(60)
        assert api.refused == 0
        assert pool.counts()["api"] >= 100
        assert not pool.case.results()


def test_a_window_of_a_minute_that_is_used_up_at_once_is_waited_for() -> None:
    api = Window(100, 60_000)
    pool = with_many(HostedPool(api, slots=8), 250)
    pool.live(100)
    assert (pool.counts()["api"], api.refused) == (200, 0)


def test_a_bucket_is_drawn_from_evenly_and_never_overdrawn() -> None:
    api = Bucket(120)
    pool = with_many(HostedPool(api), 400)
    pool.live(60)
    assert api.refused == 0
    assert pool.counts()["api"] >= 120 + 100, "the bucket, and most of what came back in the minute"
    started = pool.started["api"]
    waits = [later - earlier for earlier, later in pairwise(started[130:])]
    assert max(waits) <= 2_000, "nobody waits for the whole bucket"


def test_the_next_owner_knows_what_is_left() -> None:
    api = Window(20, 30_000)
    pool = with_many(HostedPool(api), 60)
    pool.live(4)
    assert pool.counts()["api"] == 20
    pool.taken_over()
    pool.live(20)
    assert (pool.counts()["api"], api.refused) == (20, 0)
    pool.live(10)
    assert (pool.counts()["api"], api.refused) == (40, 0)


def without_requests(left: Allowed) -> Pool:
    """A backend whose last answer said so; two requests come."""
    pool = Pool({"api": None})
    pool.allowed["api"] = left
    pool.report()
    pool.case.run(50)
    for _ in range(2):
        pool.case.submit(prompt_tokens=100)
    pool.case.run(200)
    return pool


def test_it_says_why_and_others_take_the_work() -> None:
    pool = without_requests(Allowed(requests=Left(left=0, reset_ms=20_000)))
    waits = pool.case.submit()
    pool.case.run(50)
    assert not pool.case.commands(Run)
    answer, why = asked_why(pool.case, waits.id)
    (closed,) = why.closed
    assert (closed.gate, closed.limit) == (Gate.BACKEND_CEILING, None)
    assert closed.until_ms is not None
    assert 18_000 < closed.until_ms - answer.as_of_ms <= 20_000
    core = pool.case.owner.core
    assert core is not None
    assert [each.binds for each in core._holding.figures()] == [Binding.CEILING]


def test_tokens_that_are_left_are_given_out_and_no_more() -> None:
    """The last isn't asked how many it takes: 101 each."""
    for left, given_ in ((0, 0), (1, 1), (101, 1), (102, 2)):
        pool = without_requests(Allowed(tokens=Left(left=left, reset_ms=20_000)))
        assert len(pool.case.commands(Run)) == given_


def test_what_is_on_its_way_is_taken_off() -> None:
    """Its worker hasn't begun the second when it says that two are left; that one has ended when its owner reads this."""
    pool = Pool({"api": None})
    first, second = (sent(pool) for _ in range(2))
    for run in (first, second):
        pool.case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, worker="api", boot=pool.boots["api"])
    pool.case.run(50)
    pool.allowed["api"] = Allowed(requests=Left(left=2, reset_ms=20_000), through=first.attempt)
    pool.report()
    for _ in range(5):
        pool.case.submit()
    pool.case.run(200)
    assert len(pool.case.commands(Run)) == 3


def sent(pool: Pool) -> Run:
    pool.case.submit()
    pool.case.run(200)
    run: Run = pool.case.commands(Run)[-1]
    return run


def test_what_nobody_knows_any_more_holds_nothing_back_and_is_forgotten() -> None:
    pool = without_requests(Allowed(requests=Left(left=0, reset_ms=1_000)))
    pool.allowed["api"] = Allowed(requests=Left(limit=60))
    assert not pool.case.commands(Run)
    pool.live(2)
    assert pool.counts() == {"api": 2}
    assert not pool.state.backend_ceilings
