"""GroupReader on librdkafka: the classic protocol, range assignment. Made by KafkaBus; one thread calls it.

Invariant: positions are the caller's, asked for at each assignment; nothing is ever committed to Kafka.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from confluent_kafka import Consumer, TopicPartition

from headrace.bus.kafka.connection import KafkaConnection
from headrace.bus.kafka.consuming import Consuming, consumer_settings
from headrace.bus.kafka.narrowing import all_at, at, places_of
from headrace.bus.messages import Place, Received
from headrace.bus.ports import BusError
from headrace.contracts.durations import ms

SESSION = timedelta(seconds=6)
"""A member that is killed keeps its partitions for so long."""
HEARTBEAT = timedelta(seconds=0.5)
"""Also how soon a member learns that another has come or gone."""


class KafkaGroupReader:
    """As ports.GroupReader."""

    def __init__(self, connection: KafkaConnection, name: str, group: str) -> None:
        settings = consumer_settings(connection, name, group) | {
            "group.protocol": "classic",
            "partition.assignment.strategy": "range",
            "session.timeout.ms": ms(SESSION),
            "heartbeat.interval.ms": ms(HEARTBEAT),
        }
        self._consuming = Consuming(settings)
        self._assigned: Callable[[list[Place]], Mapping[Place, int]] | None = None
        self._revoked: Callable[[list[Place]], None] | None = None

    def subscribe(
        self,
        topics: Sequence[str],
        *,
        assigned: Callable[[list[Place]], Mapping[Place, int]],
        revoked: Callable[[list[Place]], None],
    ) -> None:
        """As GroupReader.subscribe. Raises BusError for a topic that doesn't exist, BusUnavailableError."""
        self._consuming.check_exist(Place(topic, 0) for topic in topics)
        self._assigned, self._revoked = assigned, revoked
        self._consuming.client.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def _on_assign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        places = places_of(partitions)
        wanted = self._assigned(places) if self._assigned is not None and places else {}
        positions = self._consuming.resolve(wanted)
        # Assign first: a partition that isn't assigned yet can't be paused.
        client.assign(all_at(positions))
        self._consuming.gate.assign(positions)
        self._consuming.forget_gone()
        if paused := self._consuming.gate.paused_now():
            client.pause([at(place) for place in paused])

    def _on_revoke(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        places = places_of(partitions)
        self._consuming.gate.forget(places)
        self._consuming.forget_gone()
        try:
            if self._revoked is not None and places:
                self._revoked(places)
        finally:
            client.unassign()

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As GroupReader.read. What a callback raises is raised here; after that, only close."""
        return self._consuming.read(limit, wait)

    def pause(self, places: set[Place]) -> None:
        """As GroupReader.pause."""
        self._consuming.pause(places)

    def seek(self, positions: Mapping[Place, int]) -> None:
        """As GroupReader.seek."""
        for place in positions:
            if place not in self._consuming.gate.positions:
                raise BusError(f"{place.topic}/{place.partition} isn't assigned to this reader")
        self._consuming.move(self._consuming.resolve(positions))

    def close(self) -> None:
        """As GroupReader.close. Calls `revoked` for what is still held."""
        self._consuming.client.close()
