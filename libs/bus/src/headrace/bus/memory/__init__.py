"""The bus in one process's memory, with Kafka's semantics: offsets, groups, fenced transactions, trimming.

Called by tests, by the demo without a broker, and by whoever runs all services in one process. `MemoryBus` hands out the
same ports as `headrace.bus.kafka`; every port may live in a thread or event loop of its own. Nothing is kept on disk.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from headrace.bus.memory.admin import MemoryEnds, MemoryTopics
from headrace.bus.memory.asking import MemoryTopicIds, MemoryTrims
from headrace.bus.memory.async_ports import MemoryAsyncProducer, MemoryAsyncReader
from headrace.bus.memory.broker import MemoryBroker
from headrace.bus.memory.group_reader import MemoryGroupReader
from headrace.bus.memory.groups import MemoryGroup
from headrace.bus.memory.loop_ports import MemoryLoopProducer, MemoryLoopReader
from headrace.bus.memory.state import MemoryFencedState
from headrace.bus.messages import Place
from headrace.bus.rereads import RunReader

__all__ = ["MemoryBus"]


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryBus:
    """One broker and the clients of it. `wall_ms` gives the broker's timestamps, Unix ms."""

    def __init__(self, *, wall_ms: Callable[[], int] = _wall_ms) -> None:
        self._broker = MemoryBroker(wall_ms)
        self._groups: dict[str, MemoryGroup] = {}

    def loop_producer(self, name: str, *, delivery_timeout: timedelta) -> MemoryLoopProducer:  # noqa: ARG002
        """As Bus.loop_producer; every send is confirmed at once."""
        return MemoryLoopProducer(self._broker)

    def loop_reader(self, name: str) -> MemoryLoopReader:  # noqa: ARG002
        """As Bus.loop_reader."""
        return MemoryLoopReader(self._broker)

    def rereads(self, name: str) -> RunReader:  # noqa: ARG002
        """As Bus.rereads."""
        return RunReader(lambda: MemoryLoopReader(self._broker))

    def group_reader(self, name: str, group: str) -> MemoryGroupReader:
        """As Bus.group_reader."""
        return MemoryGroupReader(self._broker, self._groups.setdefault(group, MemoryGroup()), name)

    def fenced_state(self, name: str, *, place: Place, transactional_id: str) -> MemoryFencedState:  # noqa: ARG002
        """As Bus.fenced_state."""
        return MemoryFencedState(self._broker, place, transactional_id)

    def ends(self, name: str) -> MemoryEnds:  # noqa: ARG002
        """As Bus.ends."""
        return MemoryEnds(self._broker)

    def trims(self, name: str) -> MemoryTrims:  # noqa: ARG002
        """As Bus.trims."""
        return MemoryTrims(self._broker)

    def topic_ids(self, name: str) -> MemoryTopicIds:  # noqa: ARG002
        """As Bus.topic_ids."""
        return MemoryTopicIds(self._broker)

    def async_producer(
        self,
        name: str,  # noqa: ARG002
        *,
        delivery_timeout: timedelta,  # noqa: ARG002
        acks_all: bool = True,  # noqa: ARG002
    ) -> MemoryAsyncProducer:
        """As Bus.async_producer."""
        return MemoryAsyncProducer(self._broker)

    def async_reader(self, name: str) -> MemoryAsyncReader:  # noqa: ARG002
        """As Bus.async_reader."""
        return MemoryAsyncReader(self._broker)

    def topics(self, name: str) -> MemoryTopics:  # noqa: ARG002
        """As Bus.topics."""
        return MemoryTopics(self._broker)
