"""The engine counts requests as a hosted API does: by the minute, and by ten seconds."""

import pytest

from headrace.devkit.engine.per_minute import PerMinute


def test_more_than_its_part_in_ten_seconds_is_refused_and_told_when_to_come_back() -> None:
    counts = PerMinute(60)
    assert [counts.waits_s(0.1 * number) for number in range(10)] == [0] * 10
    assert counts.waits_s(4.0) == pytest.approx(6.0)
    assert counts.waits_s(9.9) == pytest.approx(0.1)
    assert counts.waits_s(10.0) == 0, "what was refused didn't count"


def test_more_than_a_minutes_is_refused_however_they_are_spread() -> None:
    counts = PerMinute(6)
    assert [counts.waits_s(11.0 * number) for number in range(6)] == [0] * 6
    assert PerMinute(1).waits_s(0) == 0
    few = PerMinute(5)
    assert [few.waits_s(at_s) for at_s in (0, 10, 20, 30, 40)] == [0] * 5
    assert few.waits_s(50) == pytest.approx(10)
    assert few.waits_s(60) == 0


def test_it_says_what_is_left_of_the_window_that_is_fullest() -> None:
    counts = PerMinute(60)
    assert counts.headers(0)["x-ratelimit-reset-requests"] == "0.000s"
    for number in range(10):
        counts.waits_s(0.1 * number)
    assert counts.headers(2) == {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "8.900s",
    }
    assert counts.headers(30)["x-ratelimit-remaining-requests"] == "10"
