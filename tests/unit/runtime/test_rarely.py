"""What happens to thousands of callers at once is one line a minute, with its number."""

from datetime import timedelta

from structlog.testing import capture_logs

from headrace.runtime.clock import ManualClock
from headrace.runtime.logging import get_logger
from headrace.runtime.rarely import Rarely


def test_a_crowd_is_one_line_a_minute_with_its_number_and_each_subject_has_its_own() -> None:
    clock = ManualClock()
    with capture_logs() as lines:
        rarely = Rarely(get_logger("http"), clock)
        for _ in range(6_001):
            rarely.warning("turned away", subject="full", route="/v1/requests")
            clock.advance(timedelta(milliseconds=10))
        rarely.warning("turned away", subject="no database", route="/v1/requests")
        rarely.warning("not confirmed")
    assert [(line["event"], line["number"]) for line in lines] == [
        ("turned away", 1), ("turned away", 6000), ("turned away", 1), ("not confirmed", 1)
    ]  # fmt: skip
