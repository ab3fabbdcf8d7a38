"""Where a request runs, and which of a tenant's runs next: what caches hold, within bounds that no hint can move."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts.durations import ms
from headrace.contracts.prefixes import ENDS
from headrace.scheduler.decisions.pick_next import order_key, priority_of, times_of
from headrace.scheduler.decisions.which_backend import (
    COLD,
    Candidate,
    Warmth,
    by_preference,
    home_of,
    load_of,
    most_held,
)
from headrace.scheduler.decisions.who_may_pass import MOST_PASSED, QUANTUM, may_be_passed, near, saved_most
from headrace.scheduler.state import cached_prefixes
from headrace.scheduler.state.cached_prefixes import CachedPrefixes

BOOTS = [f"boot-{number}" for number in range(5)]
CANDIDATES = st.lists(
    st.tuples(st.sampled_from(BOOTS), st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=5,
    unique_by=lambda each: each[0],
).map(lambda found: [Candidate(boot, limit, min(held, limit - 1), 1) for boot, limit, held in found])  # fmt: skip
WARMTH = st.dictionaries(
    st.sampled_from(BOOTS), st.builds(Warmth, st.sampled_from([0, *ENDS]), st.booleans(), st.booleans())
)


def within(candidate: Candidate, candidates: list[Candidate]) -> bool:
    """Of its part of what is held, no more than 5/4; or a quarter of its limit."""
    held, limits = sum(c.held for c in candidates) + 1, sum(c.limit for c in candidates)
    return 4 * candidate.held < candidate.limit or 4 * candidate.held * limits < 5 * held * candidate.limit


def preferred(candidates: list[Candidate], warmth: dict[str, Warmth]) -> list[Candidate]:
    held, limits = sum(c.held for c in candidates), sum(c.limit for c in candidates)
    return by_preference(candidates, warmth, held=held, limits=limits)


@given(CANDIDATES, WARMTH)
def test_the_warmest_within_its_bound_comes_first_and_nobody_is_left_out(
    candidates: list[Candidate], warmth: dict[str, Warmth]
) -> None:
    ordered = preferred(candidates, warmth)
    assert sorted(ordered) == sorted(candidates)
    allowed = [each for each in candidates if within(each, candidates)]
    if allowed:
        assert ordered[0] in allowed
        best = max(warmth.get(each.boot, COLD) for each in allowed)
        equal = [each for each in allowed if warmth.get(each.boot, COLD) == best]
        assert ordered[0] == min(equal, key=load_of)
    over = [each for each in ordered if each not in allowed]
    assert ordered[len(allowed) :] == sorted(over, key=load_of), "beyond the bound load alone counts"


@given(CANDIDATES)
def test_without_hints_it_is_the_order_by_load(candidates: list[Candidate]) -> None:
    allowed = [each for each in candidates if within(each, candidates)]
    assert preferred(candidates, {})[: len(allowed)] == sorted(allowed, key=load_of)


@given(st.lists(st.integers(1, 64), min_size=1, max_size=8), st.integers(1, 200))
def test_not_all_backends_can_be_over_their_bound_while_there_is_room(limits: list[int], held: int) -> None:
    """So a warm backend that is passed over is passed over for one that holds less."""
    bounds = [most_held(limit, held=held, limits=sum(limits)) for limit in limits]
    assert sum(bounds) >= min(held, sum(limits))


def test_a_session_has_one_home_which_moves_only_when_its_worker_goes() -> None:
    names = [f"worker-{number}" for number in range(8)]

    def home(key: str, of: list[str]) -> str:
        return max(of, key=lambda name: home_of(key, name))

    keys = [f"session-{number}" for number in range(2_000)]
    before = {key: home(key, names) for key in keys}
    counts = [list(before.values()).count(name) for name in names]
    assert min(counts) > 180, "they are spread evenly"
    after = {key: home(key, names[1:]) for key in keys}
    assert all(after[key] == before[key] for key in keys if before[key] != names[0])


def test_a_home_counts_only_where_nothing_is_warmer() -> None:
    candidates = [Candidate(boot, 8, 0, 8) for boot in BOOTS[:3]]
    homes = {BOOTS[0]: 1, BOOTS[1]: 3, BOOTS[2]: 2}

    def first(warmth: dict[str, Warmth]) -> str:
        return by_preference(candidates, warmth, held=0, limits=24, homes=homes)[0].boot

    assert first({}) == BOOTS[1]
    assert first({BOOTS[0]: Warmth(1), BOOTS[2]: Warmth(0, session=True)}) == BOOTS[0]
    assert first({BOOTS[0]: Warmth(0, adapter=True), BOOTS[2]: Warmth(0, session=True)}) == BOOTS[2]


ORDERS = st.lists(
    st.tuples(st.integers(-1, 0), st.integers(0, 4 * ms(QUANTUM)), st.booleans()), min_size=1, max_size=40
)


@given(ORDERS)
def test_who_is_near_is_of_equal_priority_within_the_quantum_and_passes_no_deadline(
    found: list[tuple[int, int, bool]],
) -> None:
    ordered = [
        (order_key(-urgency, deadline, 0, number), has)
        for number, (urgency, deadline, has) in enumerate(sorted(found))
    ]
    numbers = list(near(ordered))
    assert numbers == list(range(len(numbers)))
    assert 1 <= len(numbers) <= MOST_PASSED
    first = ordered[0][0]
    for number in numbers:
        order = ordered[number][0]
        assert priority_of(order) == priority_of(first)
        assert times_of(order)[0] - times_of(first)[0] <= ms(QUANTUM)
        assert not any(has for _, has in ordered[:number]), "nobody passes who has a deadline"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_what_is_saved_most_is_chosen_and_of_equals_the_first(pairs: list[tuple[int, int]]) -> None:
    blocks = [(min(pair), max(pair)) for pair in pairs]
    chosen = saved_most(blocks)
    worth = [here - (anywhere - here) for here, anywhere in blocks]
    assert worth[chosen] == max(worth)
    assert max(worth) not in worth[:chosen]


@pytest.mark.parametrize(
    ("passed", "has_deadline", "start_by_ms", "may"),
    [
        (0, False, None, True),
        (MOST_PASSED - 1, False, 10**6, True),
        (MOST_PASSED, False, None, False),
        (0, True, None, False),
        (0, False, ms(QUANTUM), False),
        (0, False, ms(QUANTUM) + 1, True),
    ],
)
def test_the_first_is_passed_so_often_at_most_and_never_into_its_time_out(
    passed: int, has_deadline: bool, start_by_ms: int | None, may: bool
) -> None:
    found = may_be_passed(passed=passed, has_deadline=has_deadline, start_by_ms=start_by_ms, wall_ms=0)
    assert found is may


KEYS = [f"key-{number}" for number in range(len(ENDS))]
USES = st.lists(
    st.tuples(st.sampled_from(BOOTS), st.integers(1, len(ENDS)), st.booleans()), min_size=1, max_size=30
)


@settings(deadline=timedelta(seconds=2))
@given(USES)
def test_what_was_sent_to_a_backend_is_found_there_until_its_boot_is_dead(
    uses: list[tuple[str, int, bool]],
) -> None:
    caches, truth = CachedPrefixes(), dict[str, int]()
    for boot, long, dies in uses:
        caches.used(boot, KEYS[:long])
        truth[boot] = max(truth.get(boot, 0), ENDS[long - 1])
        if dies:
            caches.forget(boot)
            truth.pop(boot)
        assert caches.blocks_of(KEYS) == truth
        assert set(caches.who_has(KEYS[0])) == set(truth)
    for boot in BOOTS:
        caches.forget(boot)
    assert len(caches) == 0
    assert not caches.blocks_of(KEYS)


def test_memory_is_bounded_and_what_was_used_longest_ago_goes_first_the_longest_beginning_before_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cached_prefixes, "MOST", 4)
    caches = CachedPrefixes()
    caches.used("boot", ["a1", "a2", "a3"])
    caches.used("boot", ["b1", "b2"])
    assert caches.blocks_of(["a1", "a2", "a3"]) == {"boot": 2}
    caches.used("boot", ["a1"])
    caches.used("boot", ["c1", "c2"])
    assert caches.blocks_of(["a1", "a2"]) == {"boot": 1}
    assert caches.blocks_of(["b1", "b2"]) == {"boot": 1}
    assert len(caches) == 4
    monkeypatch.setattr(cached_prefixes, "MOST_OF_ALL", 6)
    for number in range(40):
        caches.used(f"boot-{number % 3}", [f"x{number}", f"y{number}"])
        caches.used("boot", [f"x{number}"])
    assert len(caches) <= 6


def test_a_miss_tells_that_all_that_is_older_is_gone_too_but_only_where_the_engine_tells_of_hits() -> None:
    caches = CachedPrefixes()
    for name in "abcd":
        caches.used("boot", [f"{name}1", f"{name}2"])
    since = caches.since("boot", "b2")
    caches.used("boot", ["b1", "b2"])
    caches.were_gone("boot", since)
    assert caches.blocks_of(["a1", "a2"]), "an engine that never tells of cached tokens has said nothing"
    caches.told("boot")
    caches.were_gone("boot", since)
    assert not caches.blocks_of(["a1", "a2"])
    assert [caches.blocks_of([f"{name}1", f"{name}2"]) for name in "bcd"] == [{"boot": 2}] * 3
