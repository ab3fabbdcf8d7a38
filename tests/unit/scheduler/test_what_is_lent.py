"""Which slots may be lent, and how many are taken back: a tier's part, of what it wanted lately, and no more."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduler.decisions.what_is_lent import Share, closed_to, safe
from headrace.scheduler.state.wanted import REMEMBERED, Wanted
from tests.support.scheduler.owned_slots import TIERS

SHARES = st.dictionaries(
    st.sampled_from(TIERS),
    st.builds(
        Share,
        st.integers(1, 40),
        st.integers(0, 30),
        st.integers(0, 30),
        coming=st.integers(0, 3),
        waiting_since_ms=st.sampled_from([None, 0, 900]),
    ),
    max_size=2,
)


@given(SHARES, st.integers(0, 60), st.integers(1, 60))
def test_whoever_owns_free_slots_may_have_them_and_nobody_else(
    shares: dict[str, Share], free: int, slots: int
) -> None:
    closed = closed_to(TIERS, shares, free=free, slots=slots, boot_ms=1_000)
    for tier in TIERS:
        others = sum(
            max(0, share.owned(slots, 1_000) - share.held, share.coming)
            for name, share in shares.items() if name != tier
        )  # fmt: skip
        assert (tier in closed) == (free - others < 1)


@given(
    st.builds(
        Share,
        st.integers(1, 100),
        st.integers(0, 30),
        st.integers(0, 30),
        part=st.fractions(0, 1, max_denominator=100),
        waiting_since_ms=st.integers(0, 2_000),
    ),
    st.integers(0, 60),
    st.integers(0, 9),
)
def test_no_more_is_taken_back_than_is_owned_waited_for_and_overdue(
    share: Share, slots: int, waiting: int
) -> None:
    share = replace(share, waiting=waiting)
    owed, besides = (ask(slots, 2_000) for ask in (share.to_take_back, share.to_take_besides))
    assert max(owed, besides) <= waiting
    assert not owed or share.held + owed <= min(-(-slots * share.percent // 100), share.wanted)
    assert not besides or share.held + besides <= slots * share.part
    assert not (owed or besides) or share.waiting_since_ms is None or 2_000 - share.waiting_since_ms >= 250


def test_what_is_safe_is_a_part_rounded_up() -> None:
    parts = [Fraction(2, 3), Fraction(1, 4), Fraction(1, 12)]
    assert [safe(32, part) for part in parts] == [22, 8, 3]


@given(st.lists(st.tuples(st.integers(0, 600_000), st.integers(0, 50)), max_size=30), st.integers(0, 900_000))
def test_what_was_wanted_is_remembered_for_five_minutes_and_for_no_more_than_ten(
    seen: list[tuple[int, int]], later_ms: int
) -> None:
    wanted, now_ms, all_seen = Wanted(), 10**6, list[tuple[int, int]]()
    for after_ms, number in seen:
        now_ms += after_ms
        wanted.saw(now_ms, number)
        all_seen.append((now_ms, number))
    now_ms += later_ms
    five = REMEMBERED // timedelta(milliseconds=1)
    least, most = (
        max((number for at, number in all_seen if now_ms - at <= span), default=0)
        for span in (five, 2 * five)
    )
    assert least <= wanted.most(now_ms) <= most
