"""The bus as one simulated process has it. Takes the place of headrace.bus.kafka.KafkaBus in the product's constructors."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from headrace.bus.messages import Place
from headrace.bus.rereads import RunReader
from tests.simulation.world.asking import SimEnds, SimTopicIds, SimTrims
from tests.simulation.world.group import SimGroup, SimGroupReader
from tests.simulation.world.process import Process
from tests.simulation.world.producing import SimFencedState, SimLoopProducer
from tests.simulation.world.reading import SimAsyncReader, SimLoopReader, SimTopics

T = TypeVar("T")


class SimBus:
    """Makes the clients of one process."""

    def __init__(self, process: Process, group: SimGroup | None = None) -> None:
        self._process, self._group = process, group

    def loop_producer(self, name: str, *, delivery_timeout: timedelta) -> SimLoopProducer:  # noqa: ARG002
        """As Bus.loop_producer."""
        return SimLoopProducer(self._process, delivery_timeout)

    def loop_reader(self, name: str) -> SimLoopReader:  # noqa: ARG002
        """As Bus.loop_reader."""
        return SimLoopReader(self._process)

    def rereads(self, name: str) -> RunReader:  # noqa: ARG002
        """As Bus.rereads."""
        return RunReader(lambda: SimLoopReader(self._process))

    def group_reader(self, name: str, group: str) -> SimGroupReader:  # noqa: ARG002
        """As Bus.group_reader."""
        assert self._group is not None
        return SimGroupReader(self._process, self._group)

    def fenced_state(self, name: str, *, place: Place, transactional_id: str) -> SimFencedState:  # noqa: ARG002
        """As Bus.fenced_state."""
        return SimFencedState(self._process, place, transactional_id)

    def ends(self, name: str) -> SimEnds:  # noqa: ARG002
        """As Bus.ends."""
        return SimEnds(self._process)

    def trims(self, name: str) -> SimTrims:  # noqa: ARG002
        """As Bus.trims."""
        return SimTrims(self._process)

    def topic_ids(self, name: str) -> SimTopicIds:  # noqa: ARG002
        """As Bus.topic_ids."""
        return SimTopicIds(self._process)

    def topics(self, name: str) -> SimTopics:  # noqa: ARG002
        """As Bus.topics."""
        return SimTopics(self._process)

    def async_reader(self, name: str) -> SimAsyncReader:  # noqa: ARG002
        """As Bus.async_reader."""
        return SimAsyncReader(self._process)


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """The answer of a coroutine that waits for nothing. Raises what it raises."""
    try:
        work.send(None)
    except StopIteration as stopped:
        answer: T = stopped.value
        return answer
    work.close()
    raise AssertionError("this coroutine waits for something")
