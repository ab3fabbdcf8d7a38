from datetime import timedelta

import pytest

from headrace.contracts.clock import Now
from headrace.runtime.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_tells_unix_time_and_time_since_boot_in_milliseconds() -> None:
    clock: Clock = SystemClock()
    first, second = clock.now(), clock.now()
    assert first.wall_ms > 1_700_000_000_000
    assert 0 < first.boot_ms <= second.boot_ms < first.wall_ms


def test_a_platform_without_boottime_falls_back_to_the_monotonic_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("time.CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr("time.monotonic_ns", lambda: 5_000_000)
    assert SystemClock().now().boot_ms == 5


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(wall_ms=1000, boot_ms=10)
    assert clock.now() == clock.now() == Now(wall_ms=1000, boot_ms=10)
    assert clock.advance(timedelta(seconds=2)) == Now(wall_ms=3000, boot_ms=2010)
    assert clock.jump_wall(timedelta(seconds=-1)) == Now(wall_ms=2000, boot_ms=2010)
    with pytest.raises(ValueError, match="never runs backwards"):
        clock.advance(timedelta(seconds=-1))
