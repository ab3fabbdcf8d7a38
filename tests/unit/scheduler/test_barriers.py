"""The end of a log is proved by a record of one's own, written after it was asked for."""

from headrace.bus.messages import Place
from headrace.bus.ports import Confirmation, DeliveryUnknownError
from headrace.contracts.commands import Run
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.log_ends import BarrierDesk, BarrierSent
from tests.support.scheduler.case import Case
from tests.support.scheduler.pure import place

ONE, TWO = Place("t", 0), Place("t", 1)


def answered(barrier: BarrierSent, offset: int | None) -> Confirmation:
    error = None if offset is not None else DeliveryUnknownError("no answer")
    return Confirmation(barrier, barrier.place, offset, error)


def test_one_barrier_serves_all_who_wanted_it_before_it_was_sent_and_nobody_else() -> None:
    desk, told = BarrierDesk(), list[tuple[str, int]]()
    desk.want(ONE, lambda offset: told.append(("a", offset)))
    desk.want(ONE, lambda offset: told.append(("b", offset)))
    desk.want(TWO, lambda offset: told.append(("c", offset)))
    one, two = desk.due(0)
    assert (one.place, two.place) == (ONE, TWO)
    desk.want(ONE, lambda offset: told.append(("late", offset)))
    assert desk.due(0) == [], "one at a time in each log"
    desk.confirmed(one, answered(one, 5), 0)
    assert told == [("a", 5), ("b", 5)]
    assert not desk.idle
    [late] = desk.due(0)
    desk.confirmed(late, answered(late, 6), 0)
    desk.confirmed(two, answered(two, 9), 0)
    assert told[2:] == [("late", 6), ("c", 9)]
    assert desk.idle


def test_one_that_may_be_lost_is_sent_again_after_a_while_for_all_who_wait() -> None:
    desk, told = BarrierDesk(), list[int]()
    desk.want(ONE, told.append)
    [first] = desk.due(0)
    desk.want(ONE, told.append)
    desk.confirmed(first, answered(first, None), 1_000)
    assert desk.due(1_000) == []
    assert not desk.waiting
    [again] = desk.due(1_200)
    assert again.place == ONE
    desk.confirmed(again, answered(again, 7), 1_300)
    assert told == [7, 7]
    assert desk.idle
    assert desk.due(1_300) == []


def test_a_confirmation_of_another_desks_barrier_tells_nobody() -> None:
    desk, other, told = BarrierDesk(), BarrierDesk(), list[int]()
    for each in (desk, other):
        each.want(ONE, told.append)
    [own], [strange] = desk.due(0), other.due(0)
    desk.confirmed(strange, answered(strange, 3), 0)
    assert told == []
    desk.confirmed(own, answered(own, 4), 0)
    assert told == [4]


class CaseOfOldEnds(Case):
    """Its brokers were paused: whatever log is asked for, they know it empty."""

    def __init__(self) -> None:
        super().__init__()
        self.owner._ends = self._old_ends  # type: ignore[method-assign]

    def _old_ends(self) -> dict[Place, int] | None:
        asked, self.owner.asked = self.owner.asked, None
        return None if asked is None else dict.fromkeys(asked[1], 0)


def test_what_a_worker_has_finished_is_not_run_again_on_the_word_of_a_broker_that_lost_the_log() -> None:
    case = CaseOfOldEnds()
    case.run()
    case.report()
    record = case.submit()
    case.run()
    [run] = case.commands(Run)
    case.owner.stalled[place(TopicKind.ATTEMPTS, record.partition)] = case.world.now_ms + 2_500
    case.answer(run, Verdict.DONE, status=Status.SUCCEEDED)
    case.report()
    case.run(2_000)
    assert case.owner.core is not None
    assert record.id in case.owner.core.state.missing, "its outcome isn't read yet"
    case.run(2_000)
    assert record.id not in case.owner.core.state.tracked
    assert case.commands(Run) == [run]
