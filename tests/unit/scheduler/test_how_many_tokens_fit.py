"""How many tokens an engine's cache may be asked for: the forecast and what it is trusted with, at their edges."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.scheduler.decisions.how_many_requests_fit import LAG_MS
from headrace.scheduler.decisions.how_many_tokens_fit import (
    LEAST_THETA,
    MOST_THETA,
    CacheLook,
    Forecast,
    Load,
    Theta,
    fits,
    left_of,
    next_theta,
)

SERVICE_MS, NOW = 2_000, 1_000_000
CLEAN = CacheLook(service_ms=SERVICE_MS, preempted=False, waiting=False, fits=True, binding=True)
LOADS = st.lists(st.builds(Load, st.integers(0, 90_000), st.integers(0, 20_000)), max_size=12)


def simulated_peak(loads: list[Load]) -> int:
    """Everybody gets a token a step, and gives all back when it has what it was to get."""
    ends = sorted({load.left for load in loads})
    return max((sum(one.so_far + end for one in loads if one.left >= end) for end in ends), default=0)


@given(LOADS)
def test_the_forecast_is_the_peak_that_comes(loads: list[Load]) -> None:
    assert Forecast(loads).peak == simulated_peak(loads)


@given(LOADS, st.builds(Load, st.integers(0, 90_000), st.integers(0, 20_000)))
def test_asking_for_one_more_is_the_same_as_holding_it(loads: list[Load], more: Load) -> None:
    forecast = Forecast(loads)
    asked = forecast.peak_with(more)
    forecast.add(more)
    assert asked == forecast.peak == simulated_peak([*loads, more])


def test_the_cache_is_promised_up_to_theta_and_not_a_token_further() -> None:
    assert fits(800, 1_000, 80)
    assert not fits(801, 1_000, 80)
    assert fits(1_300, 1_000, 130)
    assert not fits(1, 0, 130), "a cache of nothing holds nothing"


def test_whoever_has_come_far_goes_on_for_longer_and_nobody_beyond_its_cap() -> None:
    def left(generated: int, cap: int | None = None) -> int:
        return left_of(generated, 100, 300, cap)

    assert [left(0), left(90), left(200), left(300), left(1_000)] == [150, 105, 50, 75, 250]
    assert [left(0, 40), left(40, 40), left(50, 40)] == [40, 0, 0]


def test_theta_falls_on_a_preemption_and_not_again_before_what_is_held_fits() -> None:
    fallen = next_theta(Theta(), replace(CLEAN, preempted=True), NOW)
    assert fallen.percent == 95
    over = replace(CLEAN, preempted=True, fits=False)
    assert next_theta(fallen, over, NOW + 60_000).percent == 95
    fitting = next_theta(fallen, CLEAN, NOW + 1)
    assert next_theta(fitting, replace(CLEAN, preempted=True), NOW + LAG_MS).percent == 95, "gauges trail"
    assert next_theta(fitting, replace(CLEAN, preempted=True), NOW + LAG_MS + 1).percent == 90


def test_theta_rises_by_one_for_each_clean_service_time_in_which_it_was_needed() -> None:
    begun = next_theta(Theta(), CLEAN, NOW)
    assert begun.percent == 100
    assert next_theta(begun, CLEAN, NOW + SERVICE_MS - 1).percent == 100
    assert next_theta(begun, CLEAN, NOW + SERVICE_MS).percent == 101
    unneeded = next_theta(Theta(), replace(CLEAN, binding=False), NOW)
    assert next_theta(unneeded, replace(CLEAN, binding=False), NOW + SERVICE_MS).percent == 100
    assert next_theta(begun, replace(CLEAN, waiting=True), NOW + SERVICE_MS).percent == 100


def test_theta_rises_slowly_near_where_it_fell_and_fast_elsewhere() -> None:
    fallen = Theta(96, failed=101)
    assert next_theta(replace(fallen, clean_ms=NOW), CLEAN, NOW + SERVICE_MS).percent == 97
    near = Theta(98, failed=101, clean_ms=NOW)
    assert next_theta(near, CLEAN, NOW + 15 * SERVICE_MS).percent == 98
    assert next_theta(near, CLEAN, NOW + 16 * SERVICE_MS).percent == 99
    beyond = Theta(103, failed=101, clean_ms=NOW)
    assert next_theta(beyond, CLEAN, NOW + SERVICE_MS).percent == 104
    assert next_theta(Theta(101, clean_ms=NOW), replace(CLEAN, preempted=True), NOW + 1).failed == 101


def test_theta_stays_between_four_fifths_and_thirteen_tenths() -> None:
    low = high = Theta()
    for second in range(0, 3_000_000, 10_000):
        high = next_theta(high, CLEAN, NOW + second)
        low = next_theta(
            next_theta(low, replace(CLEAN, preempted=True), NOW + second), CLEAN, NOW + second + 1
        )
    assert (low.percent, high.percent) == (LEAST_THETA, MOST_THETA)
