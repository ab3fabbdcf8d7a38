"""What is due is told once, however often it was entered; what has ended is held by nothing."""

from sys import getrefcount

from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.topics import TopicKind
from headrace.scheduler.state.timed import Timed
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import place
from tests.support.scheduler.queue_alone import request

SLACK = 1_024
"""What may lie in a heap beside those who count."""


def test_what_was_entered_twice_under_one_instant_is_due_once() -> None:
    one, other = request(1, "a", "t", 1), request(2, "a", "t", 1)
    instants = {one: 5, other: 7}
    timed = Timed(instants.get, {each.id: each for each in (one, other)})
    for each in (one, other, one):
        timed.put(each)
    assert timed.due(4) == []
    assert timed.due(9) == [one, other]
    assert timed.due(9) == []


def test_who_is_gone_from_memory_or_moved_is_not_due() -> None:
    gone, moved, stays = (request(number, "a", "t", 1) for number in range(3))
    instants, here = {gone: 3, moved: 4, stays: 5}, {each.id: each for each in (gone, moved, stays)}
    timed = Timed(instants.get, here)
    for each in (gone, moved, stays):
        timed.put(each)
    del here[gone.id]
    instants[moved] = 8
    assert timed.first() is stays
    assert timed.due(6) == [stays]


def test_entries_of_those_who_are_gone_go_too_though_nobody_comes() -> None:
    here = {each.id: each for each in (request(number, "a", "t", 1) for number in range(10 * SLACK))}
    timed = Timed(lambda _: 7, here)
    for each in here.values():
        timed.put(each)
    here.clear()
    assert timed.due(6) == []
    assert len(timed) == 0


def test_one_that_is_entered_again_and_again_has_few_entries() -> None:
    one = request(1, "a", "t", 1)
    timed = Timed(lambda _: 7, {one.id: one})
    for _ in range(10 * SLACK):
        timed.put(one)
        assert timed.due(6) == []
        assert len(timed) <= SLACK + 2
    assert timed.due(7) == [one]


def test_what_has_ended_is_held_by_nothing(case: Case) -> None:
    """Though it could have expired an hour later."""
    record = case.submit(b"x" * 1_000, finish_by_ms=case.world.now.wall_ms + 3_600_000)
    (received,) = case.world.logs[place(TopicKind.REQUESTS, record.partition, "batch")]
    unread = getrefcount(received)
    case.report()
    case.run()
    assert getrefcount(received) > unread
    (run,) = case.commands(Run)
    case.answer(run, Verdict.DONE, status=Status.SUCCEEDED)
    case.run()
    assert record.id in case.core.state.recent
    assert getrefcount(received) == unread
