"""Trims and TopicIds in memory; the answer is there at once. Made by MemoryBus."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from headrace.bus.memory.broker import MemoryBroker
from headrace.bus.messages import Place
from headrace.bus.ports import BusError

V = TypeVar("V")


class MemoryAsked(Generic[V]):
    """As ports.Asked."""

    def __init__(self, found: V) -> None:
        self._found = found

    def answer(self) -> V | None:
        """As Asked.answer."""
        return self._found


class MemoryTrims:
    """As ports.Trims."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def ask(self, before: Mapping[Place, int]) -> MemoryAsked[dict[Place, int]]:
        """As Trims.ask."""
        found: dict[Place, int] = {}
        for place, offset in before.items():
            try:
                found[place] = self._broker.trim(place, offset)
            except BusError:
                continue
        return MemoryAsked(found)

    def close(self) -> None:
        """As Trims.close."""


class MemoryTopicIds:
    """As ports.TopicIds."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def ask(self, names: Sequence[str]) -> MemoryAsked[dict[str, str]]:
        """As TopicIds.ask."""
        found = ((name, self._broker.found(name)) for name in names)
        return MemoryAsked({name: topic.id for name, topic in found if topic is not None})

    def close(self) -> None:
        """As TopicIds.close."""
