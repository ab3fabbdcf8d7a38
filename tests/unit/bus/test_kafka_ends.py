"""An end that the broker left unset is no end: taken for one, a gate opens too soon and cancels are dropped."""

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from headrace.bus.kafka import ends
from headrace.bus.kafka.asking import KafkaAsked
from headrace.bus.kafka.connection import KafkaConnection
from headrace.bus.messages import Place
from headrace.bus.ports import BusUnavailableError

ONE, OTHER = Place("t", 0), Place("t", 1)
Answers = Callable[[dict[Place, int]], KafkaAsked[Place, int]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Answers:
    def make(offsets: dict[Place, int]) -> KafkaAsked[Place, int]:
        futures: dict[Place, Future[SimpleNamespace]] = {place: Future() for place in offsets}
        for place, offset in offsets.items():
            futures[place].set_result(SimpleNamespace(offset=offset))
        monkeypatch.setattr(ends, "_ask", lambda *_: futures)
        return ends.KafkaEnds(KafkaConnection("127.0.0.1:1"), "test").ask(list(offsets))

    return make


def test_known_ends_are_told(asked: Answers) -> None:
    assert asked({ONE: 0, OTHER: 7}).answer() == {ONE: 0, OTHER: 7}


@pytest.mark.parametrize("unset", [-1, -1001])
def test_an_end_that_was_left_unset_is_asked_for_again(asked: Answers, unset: int) -> None:
    with pytest.raises(BusUnavailableError, match="isn't known yet"):
        asked({ONE: 5, OTHER: unset}).answer()
