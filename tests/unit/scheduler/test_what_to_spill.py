"""What stays in memory whole, and what is read again: bounds that nobody passes, and none who waits for nothing."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.scheduler.decisions.what_to_spill import (
    Amount,
    SpillBounds,
    may_be_read_again,
    may_stay,
    runs_of,
    within,
)

BOUNDS = SpillBounds(records=100, size=10_000, reach=5, run=20, gap=3, under_way=1_000)
AMOUNTS = st.builds(Amount, st.integers(0, 300), st.integers(0, 30_000))
WINDOW = Amount(1_000, 1_000_000)


@given(AMOUNTS, AMOUNTS, st.booleans())
def test_nobody_keeps_more_than_its_bound_or_than_it_leaves_free(
    own: Amount, free: Amount, is_next: bool
) -> None:
    stays = may_stay(own, free, BOUNDS, is_next=is_next)
    if stays and not (is_next and own.records < BOUNDS.reach):
        assert own.records < free.records
        assert own.size < min(free.size, BOUNDS.size)
        assert own.records < BOUNDS.records + (BOUNDS.reach if is_next else 0)
    if not stays:
        assert own.records >= min(BOUNDS.records, free.records) or own.size >= min(BOUNDS.size, free.size)


@given(st.integers(1, 30), st.integers(0, 5_000))
def test_however_many_flood_a_partition_a_newcomer_finds_room_in_its_window(
    tenants: int, requests: int
) -> None:
    window, bounds = 200, SpillBounds()
    kept = [0] * tenants
    for number in range(requests):
        own = kept[number % tenants]
        free = Amount(window - sum(kept), 10**9)
        kept[number % tenants] += may_stay(Amount(own, 0), free, bounds, is_next=False)
    assert window - sum(kept) >= window // (tenants + 1)
    assert may_stay(Amount(0, 0), Amount(window - sum(kept), 10**9), bounds, is_next=False)


@given(AMOUNTS, AMOUNTS, st.booleans())
def test_what_is_read_again_is_within_the_bound_and_leaves_as_much_free(
    own: Amount, free: Amount, next_is_here: bool
) -> None:
    room = may_be_read_again(own, free, BOUNDS, next_is_here=next_is_here)
    assert room.records >= 0
    if next_is_here and room.records:
        assert own.records + room.records <= BOUNDS.records
        assert own.records + room.records <= free.records - room.records
        assert own.size + room.size <= min(BOUNDS.size, free.size)
    if not next_is_here:
        assert room.records >= min(BOUNDS.reach, max(1, free.records)), "it would wait for ever"
        assert room.records <= max(1, free.records)


@given(st.integers(0, 100), st.integers(0, 10_000))
def test_reading_again_begins_at_half_and_then_not_for_a_few(records: int, size: int) -> None:
    room = may_be_read_again(Amount(records, size), WINDOW, BOUNDS, next_is_here=True)
    if records >= 50 or size >= 5_000:
        assert room == Amount(0, 0)
    else:
        assert room.records >= 50


@given(st.lists(st.integers(0, 500)), AMOUNTS)
def test_so_many_are_read_as_there_is_room_for_and_one_however_large(sizes: list[int], room: Amount) -> None:
    assume(room.records)
    count = within(sizes, room)
    assert count <= room.records
    assert count <= 1 or sum(sizes[:count]) <= room.size
    assert count == len(sizes) or count == room.records or sum(sizes[: count + 1]) > room.size
    assert count or not sizes


@given(st.sets(st.integers(0, 500)))
def test_runs_cover_what_is_wanted_once_and_little_else(offsets: set[int]) -> None:
    runs = runs_of(offsets, BOUNDS)
    covered = [offset for run in runs for offset in run]
    assert len(covered) == len(set(covered))
    assert offsets <= set(covered)
    for run in runs:
        assert {run.start, run.stop - 1} <= offsets
        assert len(run) <= BOUNDS.run
        wanted = sorted(offsets & set(run))
        assert all(after - before <= BOUNDS.gap + 1 for before, after in pairwise(wanted))
    for one, other in pairwise(runs):
        assert other.start - one.stop > BOUNDS.gap or other.start - one.start >= BOUNDS.run


@pytest.mark.parametrize("name", ["records", "size", "reach", "run", "gap", "under_way"])
def test_a_bound_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="positive"):
        SpillBounds(**{name: 0})
