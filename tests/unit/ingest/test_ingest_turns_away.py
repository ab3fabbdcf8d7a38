"""Who is turned away by a full replica is counted in the log, once a minute."""

from structlog.testing import capture_logs

from headrace.ingest.doors.turned_away import TurnedAway
from headrace.runtime.logging import get_logger


def test_a_crowd_that_is_turned_away_is_one_line_a_minute_with_its_number() -> None:
    with capture_logs() as lines:
        turned_away = TurnedAway(get_logger("http"))
        for now_ms in range(0, 60_001, 10):
            turned_away.one_more("/v1/requests/{request_id}/events", now_ms)
    assert [line["number"] for line in lines] == [1, 6000]
