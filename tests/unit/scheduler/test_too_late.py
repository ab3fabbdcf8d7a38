"""What is dropped when its turn comes, since it can't be in time, and what never is; how an estimate mends by itself."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts.failures import FailureKind
from headrace.contracts.policy import policy_from
from headrace.scheduler.core.releasing import MOST_DROPS
from headrace.scheduler.decisions.is_it_too_late import Takes, TooLate, is_it_too_late, is_spared
from headrace.scheduler.simulate.backend import Backend, BackendModel
from headrace.scheduler.simulate.contender import Drop, Left, Start
from headrace.scheduler.simulate.jobs import Fate, Job
from headrace.scheduler.simulate.owner import Owner
from headrace.scheduler.state.speeds import NEEDED, Speed, Speeds

WALL = 1_700_000_000_000
SOME = st.integers(0, 10**6)
TAKES = st.none() | st.builds(Takes, st.integers(0, 10_000), st.integers(10_000, 90_000))


@given(TAKES, st.integers(WALL, WALL + 10**9), st.booleans())
def test_what_has_no_deadline_is_never_too_late(takes: Takes | None, wall_ms: int, spared: bool) -> None:
    assert is_it_too_late(None, wall_ms, takes, spared=spared) is None


@given(TAKES, st.integers(-50_000, 100_000), st.booleans())
def test_a_passed_deadline_is_the_reason_whatever_is_known(
    takes: Takes | None, left_ms: int, spared: bool
) -> None:
    late = is_it_too_late(WALL + left_ms, WALL, takes, spared=spared)
    assert (late is not None and late.kind is FailureKind.DEADLINE_PASSED) == (left_ms <= 0)
    if late is not None and left_ms <= 0:
        assert late.by_ms == -left_ms


def test_who_is_spared_is_tried_unless_not_even_a_token_could_come() -> None:
    def late(left_ms: int, *, spared: bool) -> TooLate | None:
        return is_it_too_late(WALL + left_ms, WALL, Takes(1_000, 9_000), spared=spared)

    infeasible = FailureKind.DEADLINE_INFEASIBLE
    assert late(8_999, spared=False) == (infeasible, 1)
    assert late(9_000, spared=False) is None
    assert late(8_999, spared=True) is late(1_000, spared=True) is None
    assert late(999, spared=True) == (infeasible, 1)
    assert is_it_too_late(WALL + 1, WALL, None, spared=False) is None, "nothing is known yet"


@given(st.integers(1, 99), st.integers(0, 99), st.integers(1, 99), st.fractions(Fraction(1, 99), 1))
def test_spared_is_who_waits_alone_or_asks_for_no_more_than_its_part_of_the_slots(
    waiting: int, in_flight: int, slots: int, part: Fraction
) -> None:
    spared = is_spared(waiting=waiting, in_flight=in_flight, slots=slots, part=part)
    assert spared == (waiting == 1 or Fraction(waiting + in_flight, slots) <= part)


def measured(speeds: Speeds, sizes: Iterable[int], *, first_ms: int = 50, token_us: int = 20_000) -> None:
    """Attempts with 100 tokens each, whose prompts take 250 us a token."""
    for size in sizes:
        first = first_ms + size // 4
        speeds.took(
            prompt_tokens=size, first_ms=first, whole_ms=first + 99 * token_us // 1000, answer_tokens=100, boot_ms=0
        )  # fmt: skip


def test_the_pace_is_that_of_most_attempts_by_the_size_of_the_prompt() -> None:
    speeds = Speeds()
    measured(speeds, range(400, 400 * NEEDED, 400))
    assert speeds.now(0) is None, "too few"
    measured(speeds, [400 * NEEDED])
    assert speeds.now(0) == Speed(50, 250, 20_000)
    measured(speeds, [800, 1_600], first_ms=60_000, token_us=900_000)
    assert speeds.now(0) == Speed(50, 250, 20_000), "a few odd ones move nothing"
    assert Speed(50, 250, 20_000).takes_ms(1_000, 101) == 50 + 250 + 2_000


@settings(deadline=None)
@given(
    st.lists(st.tuples(SOME, st.none() | SOME, SOME, st.integers(0, 10**5)), min_size=NEEDED, max_size=200)
)
def test_no_measurement_makes_a_pace_that_is_less_than_nothing(
    took: list[tuple[int, int | None, int, int]],
) -> None:
    speeds = Speeds()
    for size, first_ms, longer_ms, tokens in took:
        whole_ms = (first_ms or 0) + longer_ms
        speeds.took(prompt_tokens=size, first_ms=first_ms, whole_ms=whole_ms, answer_tokens=tokens, boot_ms=0)
    speed = speeds.now(0)
    assert speed is not None
    assert min(speed) >= 0
    assert speed.takes_ms(5, 1) <= speed.takes_ms(6, 1) <= speed.takes_ms(6, 2)


def test_a_pace_is_forgotten_as_a_whole_once_nothing_was_measured_for_a_while() -> None:
    speeds = Speeds()
    measured(speeds, range(NEEDED))
    assert speeds.now(10_000) is not None
    assert speeds.now(10_001) is None
    assert speeds.now(0) is None, "all of it"
    measured(speeds, range(NEEDED), first_ms=30_000)
    assert speeds.now(20_001) is not None, "longer than two of the longest attempts"
    assert speeds.now(10**6) is None


class Pool:
    """One owner with four slots, by hand."""

    def __init__(self) -> None:
        self.now_ms, self.count = 0, 0
        policy = policy_from({"pools": {"main": {"models": {"m": "m"}}}, "tenants": {"a": {}, "b": {}}})
        self.owner = Owner(policy, "main", [Backend(BackendModel(slots=4))], 0)

    def jobs(self, count: int, left_ms: int | None, tenant: str = "a") -> list[Job]:
        made = []
        for _ in range(count):
            self.count += 1
            by_ms = None if left_ms is None else self.now_ms + left_ms
            made.append(Job(self.count, self.now_ms, tenant, "standard", 100, 0, 10, by_ms))
        return made

    def turn(self, arrived: Iterable[Job] = (), left: Iterable[Left] = ()) -> tuple[list[Job], list[Job]]:
        """Who is started and who is dropped."""
        orders = self.owner.turn(self.now_ms, tuple(arrived), tuple(left))
        started = [order.job for order in orders if isinstance(order, Start)]
        for job in started:
            job.sent_ms = job.started_ms = job.kept_ms = self.now_ms
        return started, [order.job for order in orders if isinstance(order, Drop)]

    def finish(self, jobs: list[Job], *, first_ms: int, token_ms: int) -> tuple[list[Job], list[Job]]:
        """They end after ten tokens."""
        ends = []
        begun_ms = self.now_ms
        for job in jobs:
            job.fate = Fate.FINISHED
            ends.append(Left(job, 10, begun_ms + first_ms))
        self.now_ms += first_ms + 9 * token_ms
        return self.turn(left=ends)

    def learn(self, *, first_ms: int = 100, token_ms: int = 50) -> None:
        for _ in range(NEEDED):
            self.finish(self.turn(self.jobs(1, None))[0], first_ms=first_ms, token_ms=token_ms)

    def counter(self, tenant: str) -> tuple[int, int]:
        account = self.owner._core.state.accounts.of("standard", tenant)
        return account.settled, account.charged


def test_what_can_not_be_in_time_is_dropped_without_a_charge_when_its_tenant_has_more_than_slots() -> None:
    pool = Pool()
    pool.learn()
    before = pool.counter("a")
    late, last = pool.jobs(2, 5_000)  # an answer of 256 tokens, as is expected, takes 13 s
    later = pool.jobs(4, None)
    started, dropped = pool.turn([late, last, *later])
    assert (started, dropped) == (later, [late, last])
    assert pool.counter("a")[0] == before[0]
    held = [pool.owner._core.state.held.of(pool.owner._scribe.ids[each]) for each in later]
    assert sum(each.charge for each in held if each is not None) == pool.counter("a")[1]
    pool.finish(later, first_ms=100, token_ms=50)
    started, dropped = pool.turn(pool.jobs(1, 5_000))
    assert (len(started), dropped) == (1, []), "alone, it is tried"
    started, dropped = pool.turn(pool.jobs(1, 90))
    assert (started, len(dropped)) == ([], 1), "but not where no token could come"


def test_a_tenant_within_its_part_of_the_slots_is_not_judged_by_the_estimate_though_it_has_several() -> None:
    pool = Pool()
    pool.learn()
    few = pool.jobs(2, 5_000, "b")
    started, dropped = pool.turn([*pool.jobs(6, 5_000), *few])
    assert set(few) <= set(started), "its part is two of the four slots"
    assert {job.tenant for job in dropped} == {"a"}


def test_at_most_so_many_are_dropped_for_a_slot_and_then_the_core_comes_back_at_once() -> None:
    pool = Pool()
    pool.learn()
    jobs = pool.jobs(2 * MOST_DROPS + 5, 5_000)
    assert [len(each) for each in pool.turn(jobs)] == [0, MOST_DROPS]
    assert pool.owner.wake_ms() == pool.now_ms + 1
    assert pool.owner._outputs.wake_ms == pool.owner._scribe.now(pool.now_ms).boot_ms
    pool.now_ms += 1
    assert [len(each) for each in pool.turn()] == [0, MOST_DROPS]
    pool.now_ms += 1
    assert [len(each) for each in pool.turn()] == [4, 1], "there are slots for the last ones"
    assert pool.owner._outputs.wake_ms > pool.owner._scribe.now(pool.now_ms).boot_ms


def test_a_pool_that_was_slow_once_is_tried_again_although_all_was_dropped() -> None:
    pool = Pool()
    pool.learn(first_ms=8_000, token_ms=100)
    dropped = 0
    for _ in range(40):
        started, late = pool.turn([*pool.jobs(1, 3_000), *pool.jobs(1, 3_000, "b")])
        dropped += len(late)
        pool.finish(started, first_ms=100, token_ms=5)
        pool.now_ms += 1_000
    assert dropped >= 20, "while it is thought to be slow"
    for _ in range(20):
        started, late = pool.turn([*pool.jobs(1, 3_000), *pool.jobs(1, 3_000, "b")])
        pool.finish(started, first_ms=100, token_ms=5)
        assert (len(started), late) == (2, []), "now it is known to be fast"


def test_cut_off_attempts_tell_the_pace_too_and_clocks_that_were_set_do_not() -> None:
    pool = Pool()
    core: Any = pool.owner._core
    for fate in (Fate.CANCELLED, Fate.FINISHED):
        for _ in range(NEEDED):
            job = pool.turn(pool.jobs(1, None))[0][0]
            job.fate = fate
            first_ms = pool.now_ms + 100 if fate is Fate.CANCELLED else pool.now_ms - 5
            pool.now_ms += 550
            pool.turn(left=[Left(job, 10, first_ms)])
    assert core.state.speeds.now(core.state.now.boot_ms) == Speed(100, 0, 50_000)
