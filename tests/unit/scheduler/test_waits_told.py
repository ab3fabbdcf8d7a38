"""What is told of a wait: about, and at most in 19 of 20 cases, by how far off what was told of late has been."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduler.decisions import estimate_wait
from headrace.scheduler.decisions.estimate_wait import NEEDED, Likely, off_by
from headrace.scheduler.state.frozen import Hold
from headrace.scheduler.state.wait_errors import REMEMBERED, WaitErrors
from tests.benchmarks.estimates import AIM, told_at, within
from tests.support.scheduler.asking import finish, started, submit

WAITS = st.integers(0, 10**7)
ERRORS = st.lists(st.integers(0, 10**5), max_size=300).map(sorted)


def dice_of(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - a run that can be had again, not a secret


@given(st.none() | WAITS, ERRORS)
def test_half_wait_no_longer_than_19_of_20_and_nobody_knows_before_enough_have_waited(
    expected: int | None, errors: list[int]
) -> None:
    told = estimate_wait.likely(expected, errors)
    if expected is None or len(errors) < NEEDED:
        assert told == Likely(expected, None)
    else:
        assert told.p50_ms is not None
        assert told.p95_ms is not None
        assert 0 <= told.p50_ms <= told.p95_ms


@given(st.integers(0, 10**30), st.lists(st.integers(0, 10**12), max_size=2 * NEEDED).map(sorted))
def test_nothing_is_told_that_is_longer_than_a_year(expected: int, errors: list[int]) -> None:
    told = estimate_wait.likely(expected, errors)
    assert all(each is None or each <= 366 * 86_400_000 for each in told)
    assert told.p50_ms is not None or told.p95_ms is None, "the longer isn't known where the shorter isn't"


@given(WAITS)
def test_where_estimates_come_true_nothing_is_made_of_them(expected: int) -> None:
    right = [off_by(expected, expected)] * NEEDED
    assert estimate_wait.likely(expected, right) == Likely(expected, expected)


@given(WAITS, WAITS, WAITS)
def test_who_waits_longer_is_further_off(waited: int, more: int, expected: int) -> None:
    assert off_by(waited, expected) <= off_by(waited + more, expected)


def test_19_of_20_start_as_soon_as_they_were_told_and_half_as_soon_as_that_was_said() -> None:
    dice, errors, half, most = dice_of(5), WaitErrors(), 0, 0
    count = 2_000
    for number in range(count + NEEDED):
        expected = dice.randrange(1_000, 100_000)
        waited = int(expected * dice.lognormvariate(0.3, 0.7))
        told = estimate_wait.likely(expected, errors.of("t", 0))
        if told.p50_ms is not None and told.p95_ms is not None:
            half += waited <= told.p50_ms
            most += waited <= told.p95_ms
        errors.note(f"{number}", "t", expected, boot_ms=0, known={f"{number}"})
        errors.started(f"{number}", waited)
    assert 0.45 <= half / count <= 0.55
    assert 0.95 <= most / count <= 0.99


def test_who_still_waits_counts_once_it_is_overdue_and_who_has_ended_no_more() -> None:
    errors, both = WaitErrors(), {"a", "b"}
    errors.note("a", "t", 1_000, boot_ms=0, known=both)
    errors.note("b", "other", 1_000, boot_ms=0, known=both)
    assert errors.of("t", 900) == []
    assert errors.of("t", 4_750) == [off_by(4_750, 1_000)] == [4_000]
    errors.note("b", "other", 1_000, boot_ms=0, known={"b"})
    assert errors.of("t", 4_750) == []
    errors.started("a", 5_000)
    errors.started("b", 1_000)
    assert (errors.of("t", 9_000), errors.of("other", 9_000)) == ([], [1_000])


def test_no_more_is_remembered_than_allowed() -> None:
    errors = WaitErrors()
    ids = {f"{number}" for number in range(3 * REMEMBERED)}
    for _ in range(3):
        for number in range(3 * REMEMBERED):
            errors.note(f"{number}", "t", 0, boot_ms=number, known=ids)
        for number in range(3 * REMEMBERED):
            errors.started(f"{number}", 10_000)
    assert REMEMBERED // 2 <= len(errors.of("t", 0)) <= REMEMBERED


def learnt_of(waits_ms: int) -> Likely:
    """What is told where ten come in each second, and each was told half of what it waits."""
    errors, waiting, said_ms = WaitErrors(), dict[str, int](), waits_ms // 2
    for now_ms in range(0, max(60_000, 5 * waits_ms), 100):
        over = f"{now_ms - waits_ms}"
        if waiting.pop(over, None) is not None:
            errors.started(over, now_ms)
        waiting[f"{now_ms}"] = now_ms
        if errors.is_due(now_ms):
            errors.note(f"{now_ms}", "t", said_ms, boot_ms=now_ms, known=waiting)
    return estimate_wait.likely(said_ms, errors.of("t", now_ms))


def test_however_long_waits_are_it_is_learnt_how_far_off_they_are() -> None:
    for waits_ms in (1_000, 60_000, 600_000):
        told = learnt_of(waits_ms)
        assert told.p95_ms is not None
        assert 0.98 * waits_ms <= told.p95_ms <= waits_ms


def test_who_is_held_back_by_an_operator_teaches_nothing() -> None:
    case = started(limit=1)
    for _ in range(3):
        submit(case, max_tokens=None)
    case.run(500)
    finish(case, 1)
    case.run(500)
    submit(case, max_tokens=None)
    case.run(200)
    state, hour_ms = case.core.state, 3_600_000
    assert len(state.waits.of("batch", state.now.boot_ms + hour_ms)) == 1, "it is overdue by then"
    state.queue.frozen.freeze(Hold("batch", "a"))
    submit(case, "b", max_tokens=None)
    case.run(200)
    assert len(state.waits.of("batch", state.now.boot_ms + hour_ms)) == 1, "that of the other tenant alone"


def test_callers_of_a_full_pool_start_within_what_they_are_told() -> None:
    """The owner itself, asked by each that must wait; in the tiers whose queues don't grow for as long as the run lasts."""
    told = told_at(1.3, seed=0, requests=900)
    ranged = [each for tier in ("interactive", "standard") for each in told[tier] if each.p95_ms is not None]
    assert len(ranged) > 300
    assert within(ranged) >= AIM
    assert sum(each.waited_ms <= each.p50_ms for each in told["interactive"]) / len(told["interactive"]) > 0.4
