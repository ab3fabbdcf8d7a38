"""How many attempts of a backend end in a second, of late."""

import pytest

from headrace.scheduler.state.latencies import Latencies


def ending(latencies: Latencies, *, since_ms: int, until_ms: int, a_second: int) -> None:
    """So many end in each second, evenly."""
    for number in range((until_ms - since_ms) * a_second // 1_000):
        latencies.ended(since_ms + number * 1_000 // a_second)


def test_ends_are_counted_however_many_there_are() -> None:
    latencies = Latencies()
    ending(latencies, since_ms=0, until_ms=12_000, a_second=3_000)
    assert latencies.rate_milli(12_000) == pytest.approx(3_000_000, rel=0.01)


def test_few_are_counted_over_ten_seconds_and_forgotten_then() -> None:
    latencies = Latencies()
    ending(latencies, since_ms=0, until_ms=20_000, a_second=15)
    assert latencies.rate_milli(20_000) == pytest.approx(15_000, rel=0.02)
    assert latencies.rate_milli(24_000) == pytest.approx(9_000, rel=0.05)
    assert latencies.rate_milli(40_000) == 0


def test_where_many_end_another_rate_is_known_two_seconds_later() -> None:
    latencies = Latencies()
    ending(latencies, since_ms=0, until_ms=10_000, a_second=200)
    ending(latencies, since_ms=10_000, until_ms=12_000, a_second=2_000)
    assert latencies.rate_milli(12_000) == pytest.approx(2_000_000, rel=0.01)


def test_what_is_read_at_once_after_a_pause_is_no_greater_rate_than_two_seconds_of_it() -> None:
    latencies = Latencies()
    for _ in range(1_000):
        latencies.ended(10_000)
    assert latencies.rate_milli(10_000) <= 500_000
