"""A payload that is said to be gone stops the pool only when it is said for long: a paused broker knows an old end."""

import pytest

from headrace.bus.messages import Place
from headrace.bus.ports import PositionGoneError, Run, RunRead
from headrace.contracts.clock import Now
from headrace.scheduler.rereading import Rereading

HERE, THERE = Place("t", 0), Place("t", 1)


class Logs:
    """Answers with what a test has put there."""

    def __init__(self) -> None:
        self.asked: list[Run] = []
        self.to_come: list[RunRead] = []
        self.gone: Place | None = None
        self.looks = 0

    def ask(self, run: Run) -> None:
        self.asked.append(run)

    def answers(self, limit: int) -> list[RunRead]:
        assert limit > 0
        self.looks += 1
        if self.gone is not None:
            raise PositionGoneError(self.gone, 7, "gone")
        found, self.to_come = self.to_come, []
        return found

    def give_up(self, place: Place) -> list[Run]:
        found = [run for run in self.asked if run.place == place]
        self.asked = [run for run in self.asked if run.place != place]
        return found

    def close(self) -> None:
        raise AssertionError("whoever has made it closes it")


def at(boot_ms: int) -> Now:
    return Now(0, boot_ms)


def test_runs_are_asked_for_and_come() -> None:
    logs, run = Logs(), Run(HERE, 1, 2)
    rereading = Rereading(logs, "dispensable")
    rereading.ask([run])
    assert logs.asked == [run]
    logs.to_come = [RunRead(run, ())]
    assert rereading.answers(at(0)) == [RunRead(run, ())]


def test_what_is_gone_for_a_moment_stops_nobody() -> None:
    logs, run = Logs(), Run(HERE, 1, 2)
    rereading = Rereading(logs, "dispensable")
    logs.gone = HERE
    for boot_ms in range(0, 14_000, 5):
        assert rereading.answers(at(boot_ms)) == []
    assert logs.looks <= 60, "not at each turn"
    logs.gone, logs.to_come = None, [RunRead(run, ())]
    assert rereading.answers(at(14_250)) == [RunRead(run, ())]
    logs.gone = HERE
    assert rereading.answers(at(20_000)) == [], "it begins anew"


def test_what_is_gone_for_long_is_gone_whatever_else_comes() -> None:
    logs = Logs()
    rereading = Rereading(logs, "dispensable")
    for boot_ms in range(0, 15_000, 250):
        logs.gone = None if boot_ms % 500 else HERE
        logs.to_come = [RunRead(Run(THERE, 1, 2), ())]
        rereading.answers(at(boot_ms))
    logs.gone = HERE
    with pytest.raises(PositionGoneError):
        rereading.answers(at(15_000))


def test_what_nobody_must_have_is_told_to_be_empty_once_it_is_gone_for_long() -> None:
    logs, run = Logs(), Run(Place("dispensable", 3), 1, 2)
    rereading = Rereading(logs, "dispensable")
    rereading.ask([run, Run(HERE, 1, 2)])
    logs.gone = run.place
    for boot_ms in range(0, 15_000, 250):
        assert rereading.answers(at(boot_ms)) == []
    assert rereading.answers(at(15_000)) == [RunRead(run, ())]
    assert logs.asked == [Run(HERE, 1, 2)]
