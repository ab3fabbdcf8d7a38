"""How many requests a backend may hold, and both limits together: each rule by itself, at its edges."""

from dataclasses import replace
from itertools import pairwise
from math import ceil, sqrt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts.reports import Gauges
from headrace.scheduler.decisions.have_first_tokens_slowed import have_slowed, percentile, size_of
from headrace.scheduler.decisions.how_many_requests_fit import (
    FIRST,
    LAG_MS,
    Look,
    RequestLimit,
    first_limit,
    next_limit,
)
from headrace.scheduler.decisions.how_many_to_send_ahead import to_send_ahead
from headrace.scheduler.decisions.how_much_may_a_backend_hold import room_of
from headrace.scheduler.state.backend_limits import BackendLimits

SERVICE_MS, TTFT_MS, NOW = 2_000, 300, 1_000_000
FULL = Look(ceiling=1_000, in_flight=64, ttft_ms=TTFT_MS, service_ms=SERVICE_MS, fresh=True, waiting=0,
            running=64, sample_age_ms=0)  # fmt: skip
AT_64 = RequestLimit(64, 64)


def seen(**changes: Any) -> Look:
    return replace(FULL, **changes)


@pytest.mark.parametrize(
    "wrong", [{"waiting": 5}, {"own_waiting": 5}, {"refused": True}, {"refused": True, "sample_age_ms": None}]
)
def test_a_queue_in_the_engine_or_a_refusal_cuts_by_a_fifth(wrong: dict[str, Any]) -> None:
    cut = next_limit(AT_64, seen(**wrong), NOW)
    assert (cut.limit, cut.frozen) == (51, True)
    assert next_limit(RequestLimit(1, 1), seen(**wrong), NOW).limit == 1


def test_three_that_wait_cut_nothing_and_let_nothing_grow() -> None:
    assert next_limit(AT_64, seen(waiting=4), NOW).limit == 51
    assert next_limit(AT_64, seen(waiting=3), NOW).limit == 64
    assert next_limit(AT_64, seen(waiting=2), NOW).limit == 64
    assert next_limit(AT_64, seen(own_waiting=2), NOW).limit == 64
    assert next_limit(AT_64, seen(waiting=1), NOW).limit == 68


def test_a_queue_that_an_old_sample_shows_cuts_nothing() -> None:
    assert next_limit(AT_64, seen(fresh=False, waiting=50), NOW).limit == 64


def test_a_cut_isnt_followed_by_another_before_a_service_time_nor_before_it_was_obeyed() -> None:
    queued = seen(own_waiting=9)
    cut = next_limit(AT_64, queued, NOW)
    assert next_limit(cut, replace(queued, in_flight=51), NOW + SERVICE_MS - 1).limit == 51
    assert next_limit(cut, replace(queued, in_flight=52), NOW + 9 * SERVICE_MS).limit == 51, "not obeyed yet"
    assert next_limit(cut, replace(queued, in_flight=51), NOW + SERVICE_MS).limit == 40
    ahead = replace(queued, in_flight=54, ahead=3)
    assert next_limit(cut, ahead, NOW + SERVICE_MS).limit == 40, "what is sent ahead isn't disobedience"


def test_late_first_tokens_cut_nothing_below_what_any_engine_holds() -> None:
    for late in (seen(own_waiting=9), seen(slow=True, waiting=None, running=None, sample_age_ms=None)):
        assert next_limit(AT_64, late, NOW).limit == 51
        assert next_limit(RequestLimit(18, 18), late, NOW).limit == FIRST
        assert next_limit(RequestLimit(8, 8), replace(late, ceiling=8), NOW).limit == 8


def test_what_is_far_too_much_is_cut_to_what_runs() -> None:
    assert next_limit(RequestLimit(400, 400), seen(in_flight=400, running=250, waiting=150), NOW).limit == 320
    assert next_limit(RequestLimit(400, 400), seen(in_flight=400, running=64, waiting=336), NOW).limit == 200
    assert next_limit(RequestLimit(120, 64), seen(in_flight=120, running=64, waiting=65), NOW).limit == 64


def test_a_search_doubles_as_the_gauges_show_it_and_its_first_cut_takes_the_last_doubling_back() -> None:
    doubled = next_limit(replace(AT_64, searching=True), FULL, NOW)
    assert doubled.limit == 128
    full = seen(in_flight=128, running=64)
    assert next_limit(doubled, full, NOW + TTFT_MS).limit == 128, "nothing of it is seen yet"
    assert next_limit(doubled, full, NOW + LAG_MS).limit == 256
    assert next_limit(doubled, replace(full, running=65), NOW + TTFT_MS).limit == 256
    cut = next_limit(doubled, replace(full, running=100, waiting=28), NOW + TTFT_MS)
    assert (cut.limit, cut.searching) == (64, False)


def test_the_last_good_limit_is_one_that_was_used() -> None:
    idle = next_limit(RequestLimit(64, 40), seen(in_flight=2), NOW)
    assert idle.good == 40, "few that do well say nothing of many"
    assert next_limit(RequestLimit(64, 40), seen(in_flight=50), NOW).good == 50


def test_a_queue_from_before_the_cut_isnt_cut_again() -> None:
    cut = next_limit(AT_64, seen(waiting=9, running=60, in_flight=69), NOW)
    obeyed = next_limit(cut, seen(waiting=0, in_flight=51, fresh=False), NOW + SERVICE_MS)
    trailing = seen(waiting=9, running=60, in_flight=51)
    assert next_limit(obeyed, trailing, NOW + SERVICE_MS + LAG_MS - 1).limit == 51
    assert next_limit(obeyed, trailing, NOW + SERVICE_MS + LAG_MS).limit == 40
    caught_up = seen(waiting=9, running=42, in_flight=51)
    assert next_limit(obeyed, caught_up, NOW + SERVICE_MS + 1).limit == 40


def test_it_grows_once_in_the_time_of_a_first_token_and_on_fresh_news_alone() -> None:
    grown = next_limit(AT_64, FULL, NOW)
    assert grown.limit == 68
    full = seen(in_flight=68, running=68)
    assert next_limit(grown, full, NOW + TTFT_MS - 1).limit == 68
    assert next_limit(grown, full, NOW + TTFT_MS).limit == 72
    assert next_limit(grown, replace(full, fresh=False), NOW + TTFT_MS).limit == 68
    assert next_limit(RequestLimit(3, 3), seen(in_flight=3), NOW).limit == 4


def test_it_never_grows_while_there_is_too_little_to_do() -> None:
    assert next_limit(AT_64, seen(in_flight=57), NOW).limit == 64
    assert next_limit(AT_64, seen(in_flight=58), NOW).limit == 68
    peaked = replace(AT_64, peak=60)
    assert next_limit(peaked, seen(in_flight=10), NOW).limit == 68, "it was used between two looks"


def test_it_never_grows_beyond_what_the_operator_allows() -> None:
    assert next_limit(AT_64, seen(ceiling=66), NOW).limit == 66
    assert next_limit(replace(AT_64, limit=66), seen(ceiling=66, in_flight=66), NOW).limit == 66
    assert [first_limit(3).limit, first_limit(10_000).limit, first_limit(10_000, held=70).limit] == [
        3,
        FIRST,
        70,
    ]


def test_near_the_limit_each_growth_is_seen_before_the_next() -> None:
    careful = next_limit(replace(AT_64, cut_from=80), FULL, NOW)
    assert careful.limit == 68
    trailing = seen(in_flight=68, running=64)
    assert next_limit(careful, trailing, NOW + 1_000).limit == 68
    assert next_limit(careful, trailing, NOW + LAG_MS).limit == 72, "gauges don't trail for ever"
    assert next_limit(careful, replace(trailing, running=65), NOW + 1_000).limit == 72


def test_it_grows_by_half_as_much_where_it_was_cut_before() -> None:
    assert next_limit(replace(AT_64, cut_from=73), FULL, NOW).limit == 66
    assert next_limit(replace(AT_64, cut_from=74), FULL, NOW).limit == 68
    near = next_limit(replace(AT_64, cut_from=73), FULL, NOW)
    assert next_limit(near, seen(in_flight=66, running=66), NOW + LAG_MS - 1).limit == 66
    assert next_limit(near, seen(in_flight=66, running=66), NOW + LAG_MS).limit == 68


def test_without_news_the_limit_is_held_and_then_goes_back_to_the_last_good_one() -> None:
    high = RequestLimit(64, 40)
    assert next_limit(high, seen(fresh=False, sample_age_ms=19_000), NOW).limit == 64
    drifting = next_limit(high, seen(fresh=False, sample_age_ms=21_000), NOW)
    assert drifting.limit == 60
    for second in range(1, 30):
        drifting = next_limit(drifting, seen(fresh=False, sample_age_ms=21_000), NOW + 1_000 * second)
    assert drifting.limit == 40


def test_without_gauges_it_grows_while_nothing_is_refused() -> None:
    blind = seen(fresh=False, waiting=None, running=None, sample_age_ms=None)
    assert next_limit(AT_64, blind, NOW).limit == 68
    assert next_limit(AT_64, replace(blind, refused=True), NOW).limit == 51


@given(
    st.lists(
        st.tuples(st.integers(0, 90), st.integers(0, 20), st.booleans(), st.integers(1, 3_000)), max_size=60
    )
)
def test_limits_stay_in_their_bounds_and_cuts_a_service_time_apart(
    history: list[tuple[int, int, bool, int]],
) -> None:
    now, limits = NOW, [first_limit(40)]
    for in_flight, waiting, refused, waited_ms in history:
        now += waited_ms
        limits.append(
            next_limit(
                limits[-1], seen(ceiling=40, in_flight=in_flight, waiting=waiting, refused=refused), now
            )
        )
    assert all(1 <= limit.limit <= 40 for limit in limits)
    cuts = sorted({limit.cut_ms for limit in limits if limit.cut_ms > 0})
    assert all(later - earlier >= SERVICE_MS for earlier, later in pairwise(cuts))
    for before, after in pairwise(limits):
        assert after.limit <= before.limit + (
            before.limit if before.searching else max(1, before.limit // 16)
        )
        assert before.searching or not after.searching


@given(st.integers(0, 5_000_000), st.integers(0, 60_000), st.integers(0, 300))
def test_what_is_sent_ahead_fills_the_gap_and_is_at_most_a_quarter_of_a_second(
    rate_milli: int, gap_ms: int, step_ms: int
) -> None:
    ahead, per_second = to_send_ahead(rate_milli, gap_ms, step_ms), rate_milli / 1000
    ended = per_second * (gap_ms + step_ms) / 1000
    assert ahead <= per_second / 4
    wanted = ended + 2.33 * sqrt(ended)
    assert min(wanted - 0.001, int(per_second / 4)) <= ahead <= ceil(wanted + 0.001)


def test_first_tokens_have_slowed_when_half_took_twice_as_long_as_usual() -> None:
    assert have_slowed(300, [601] * 8)
    assert not have_slowed(300, [600] * 8)
    assert have_slowed(30, [281] * 8)
    assert not have_slowed(30, [280] * 8), "prompts that are computed in turns"
    assert not have_slowed(300, [900] * 7), "too few to say"
    assert not have_slowed(None, [900] * 8)
    assert [percentile([], 50), percentile([3, 1, 2], 50), percentile(list(range(11)), 10)] == [None, 2, 1]
    assert size_of(1_000) == size_of(600) != size_of(2_000)


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_the_gate_closes_at_the_lesser_of_both_limits(limit: int, learned: int, held: int) -> None:
    room = room_of(limit=limit, held=held, healthy=True, draining=False, answered=True, learned=learned)
    assert room == max(0, min(limit, learned) - held)
    assert room_of(limit=limit, held=held, healthy=False, draining=False, answered=True, learned=learned) == 0


def look(limits: BackendLimits, boot_ms: int, **changes: int) -> None:
    fields = {"ceiling": 100, "in_flight": 16, "own_waiting": 0, "peak": 900, "held_tokens": 500}
    limits.look(**{**fields, **changes}, boot_ms=boot_ms)


def test_a_backend_is_cut_by_what_its_gauges_show_and_told_once() -> None:
    limits = BackendLimits.of(100)
    limits.heard(Gauges(sample=1, running=11, waiting=5), 0)
    look(limits, 10_000)
    assert limits.limit == 12
    limits.heard(Gauges(sample=1, running=11, waiting=5), 60_000)
    look(limits, 60_000, in_flight=12)
    assert limits.limit == 12, "that sample was used up"


def test_a_cache_keeps_back_what_doesnt_fit_and_shrinks_on_preemptions() -> None:
    limits = BackendLimits.of(100)
    assert limits.may_promise(10**9), "a cache of which nothing is known"
    limits.heard(Gauges(sample=1, kv_tokens=1_000, preemptions=3), 0)
    assert limits.may_promise(1_000)
    assert not limits.may_promise(1_001)
    look(limits, 1_000)
    limits.heard(Gauges(sample=2, kv_tokens=1_000, preemptions=4), 2_000)
    look(limits, 2_000)
    assert not limits.may_promise(951)
    assert limits.may_promise(950)


def test_the_size_of_a_cache_is_learned_from_what_it_holds() -> None:
    limits = BackendLimits.of(100)
    limits.heard(Gauges(sample=1, kv_permille=100), 0)
    look(limits, 0)
    assert limits.kv_tokens is None, "too empty to tell"
    limits.heard(Gauges(sample=2, kv_permille=500), 1_000)
    look(limits, 1_000)
    assert limits.kv_tokens == 1_000


def test_an_engine_that_restarts_has_preempted_nobody() -> None:
    limits = BackendLimits.of(100)
    limits.heard(Gauges(sample=1, kv_tokens=1_000, preemptions=30), 0)
    look(limits, 1_000)
    limits.heard(Gauges(sample=2, kv_tokens=1_000, preemptions=0), 2_000)
    look(limits, 2_000)
    assert limits.may_promise(1_000)
