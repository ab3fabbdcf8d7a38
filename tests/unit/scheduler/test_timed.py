"""What is due is told once, however often it was entered."""

from headrace.scheduler.state.timed import Timed
from headrace.scheduler.state.tracked import Tracked
from tests.support.scheduler.queue_alone import request


def test_what_was_entered_twice_under_one_instant_is_due_once() -> None:
    instants: dict[Tracked, int] = {}
    timed = Timed(instants.get)
    one, other = request(1, "a", "t", 1), request(2, "a", "t", 1)
    instants |= {one: 5, other: 7}
    for each in (one, other, one):
        timed.put(each)
    assert timed.due(4) == []
    assert timed.due(9) == [one, other]
    assert timed.due(9) == []
