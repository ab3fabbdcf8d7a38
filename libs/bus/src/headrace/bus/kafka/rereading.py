"""Reads from given positions without waiting for anything, for headrace.bus.rereads. Made by KafkaBus.

As KafkaLoopReader, but that nothing is looked up: what is read again was read before, so that its topic exists. Invariant:
`assign` only tells the client, which takes it over in a thread of its own.
"""

from collections.abc import Mapping
from datetime import timedelta

from headrace.bus.kafka.connection import KafkaConnection
from headrace.bus.kafka.consuming import Consuming, consumer_settings
from headrace.bus.kafka.narrowing import all_at
from headrace.bus.messages import Place, Received

_RUNS = {"queued.min.messages": 100, "fetch.message.max.bytes": 256 * 1024}
"""A run is some hundred kilobytes, and what is fetched behind it is thrown away."""


class KafkaRereading:
    """As rereads.Reading."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._consuming = Consuming(consumer_settings(connection, name, group=f"{name}.no-group") | _RUNS)

    def assign(self, positions: Mapping[Place, int]) -> None:
        """As Reading.assign."""
        self._consuming.client.assign(all_at(positions))
        self._consuming.gate.assign(positions)
        self._consuming.forget_gone()

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As LoopReader.read."""
        return self._consuming.read(limit, wait)

    def close(self) -> None:
        """As LoopReader.close."""
        self._consuming.client.close()
