"""A checkpoint's commit: given all its time in a thread, asked without waiting. Its producer is played by the test."""

from threading import Event
from time import monotonic
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from headrace.bus.kafka.connection import KafkaConnection
from headrace.bus.kafka.state import KafkaFencedState
from headrace.bus.messages import Place
from headrace.bus.ports import BusError, CommitFailedError, FencedError
from tests.support.eventually import eventually

PLACE = Place("t.state.small", 0)


class Coordinator:
    """A producer whose coordinator answers when `answer` is set."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self.answer, self.error, self.asked = Event(), error, list[tuple[Any, ...]]()

    def begin_transaction(self) -> None:
        pass

    def commit_transaction(self, *timeout: float) -> None:
        self.asked.append(timeout)
        self.answer.wait(0.2 if timeout else 10)
        if self.error is not None:
            raise KafkaException(self.error)


def writing(coordinator: Coordinator) -> KafkaFencedState:
    state = KafkaFencedState(KafkaConnection("127.0.0.1:1"), "x", PLACE, "x")
    state._producer, state._claimed = cast("Producer", coordinator), True
    state.begin([])
    return state


def test_a_slow_commit_holds_up_nobody_and_is_never_given_a_short_time() -> None:
    coordinator = Coordinator()
    state, began = writing(coordinator), monotonic()
    assert [state.committed() for _ in range(5)] == 5 * [False]
    assert monotonic() - began < 5, "each look waits a ms, and on a busy machine somewhat more"
    coordinator.answer.set()
    eventually(state.committed, "the commit")
    # librdkafka fails the transaction, or aborts the process, when a commit's time runs out past its flush
    assert coordinator.asked == [()]


@pytest.mark.parametrize(
    ("code", "raised"),
    [(KafkaError._FENCED, FencedError), (KafkaError._INCONSISTENT, CommitFailedError)],
)
def test_a_commit_that_fails_says_so_at_each_call(code: int, raised: type[BusError]) -> None:
    coordinator = Coordinator(KafkaError(code))
    state = writing(coordinator)
    coordinator.answer.set()
    for _ in range(2):
        with pytest.raises(raised):
            eventually(state.committed, "the failure")
