"""LoopReader on librdkafka: assign() only. Made by KafkaBus; only the loop's own thread calls it."""

from collections.abc import Mapping
from datetime import timedelta

from headrace.bus.kafka.connection import KafkaConnection
from headrace.bus.kafka.consuming import Consuming, consumer_settings
from headrace.bus.kafka.narrowing import all_at, at
from headrace.bus.messages import Place, Received

_SHORT_QUEUE = {"queued.min.messages": 100, "fetch.message.max.bytes": 64 * 1024}
"""All partitions share the client's queue: what an owner must see soon would stand behind the backlog that was fetched."""


class KafkaLoopReader:
    """As ports.LoopReader."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        # librdkafka wants a group's name, although nothing is joined or committed.
        self._consuming = Consuming(
            consumer_settings(connection, name, group=f"{name}.no-group") | _SHORT_QUEUE
        )

    def assign(self, positions: Mapping[Place, int]) -> None:
        """As LoopReader.assign. Raises BusError for a topic or partition that doesn't exist, BusUnavailableError."""
        resolved = self._consuming.resolve(positions)
        self._consuming.client.assign(all_at(resolved))
        self._consuming.settle(resolved)
        self._consuming.gate.assign(resolved)
        self._consuming.forget_gone()
        if paused := self._consuming.gate.paused_now():
            self._consuming.client.pause([at(place) for place in paused])

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As LoopReader.read."""
        return self._consuming.read(limit, wait)

    def pause(self, places: set[Place]) -> None:
        """As LoopReader.pause."""
        self._consuming.pause(places)

    def position(self, place: Place) -> int:
        """As LoopReader.position."""
        return self._consuming.position(place)

    def close(self) -> None:
        """As LoopReader.close."""
        self._consuming.client.close()
