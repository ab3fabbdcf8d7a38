"""Topics and Ends in memory. Made by MemoryBus."""

from collections.abc import Mapping, Sequence

from headrace.bus.memory.broker import MemoryBroker
from headrace.bus.messages import Place
from headrace.bus.ports import FoundTopic
from headrace.contracts.topics import Topic


class MemoryEndsAsked:
    """As ports.EndsAsked."""

    def __init__(self, broker: MemoryBroker, places: Sequence[Place]) -> None:
        self._broker, self._places = broker, tuple(places)

    def answer(self) -> dict[Place, int] | None:
        """As EndsAsked.answer; there at once. Raises BusError for a topic that doesn't exist."""
        return self._broker.ends(self._places, committed=False)


class MemoryEnds:
    """As ports.Ends."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def ask(self, places: Sequence[Place]) -> MemoryEndsAsked:
        """As Ends.ask."""
        return MemoryEndsAsked(self._broker, places)

    def close(self) -> None:
        """As Ends.close."""


class MemoryTopics:
    """As ports.Topics."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def describe(self, names: Sequence[str]) -> dict[str, FoundTopic]:
        """As Topics.describe."""
        return {name: found for name in names if (found := self._broker.found(name)) is not None}

    def create(self, topics: Sequence[Topic]) -> None:
        """As Topics.create."""
        for topic in topics:
            self._broker.create(topic)

    def add_partitions(self, name: str, total: int) -> None:
        """As Topics.add_partitions. Raises BusError when it has as many already."""
        self._broker.change(name, partitions=total)

    def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """As Topics.set_configs."""
        self._broker.change(name, configs=configs)

    def close(self) -> None:
        """As Topics.close."""
