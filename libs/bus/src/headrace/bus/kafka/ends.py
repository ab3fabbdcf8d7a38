"""Ends on librdkafka's admin client: asked of the brokers, never of a cache. Made by KafkaBus."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient

from headrace.bus.kafka.admin_client import RenewedAdminClient
from headrace.bus.kafka.admin_types import ListOffsetsResultInfo, OffsetSpec
from headrace.bus.kafka.connection import ANSWER_WITHIN, KafkaConnection
from headrace.bus.kafka.narrowing import at
from headrace.bus.messages import Place
from headrace.bus.ports import BusUnavailableError


class KafkaEndsAsked:
    """As ports.EndsAsked."""

    def __init__(self, admin: RenewedAdminClient, places: Sequence[Place]) -> None:
        self._admin, self._client = admin, admin.current()
        self._futures = _ask(self._client, places)

    def answer(self) -> dict[Place, int] | None:
        """As EndsAsked.answer. Raises BusError for a topic that doesn't exist."""
        if not all(future.done() for future in self._futures.values()):
            return None
        try:
            ends = {place: future.result().offset for place, future in self._futures.items()}
        except KafkaException as exception:
            raise self._admin.failure(
                self._client, exception, "asking for the ends of logs failed"
            ) from exception
        # A broker on its way down or up may leave an offset unset, and call that no error.
        if unset := [place for place, end in ends.items() if end < 0]:
            raise BusUnavailableError(f"the end of {unset[0].topic}/{unset[0].partition} isn't known yet")
        return ends


def _ask(client: AdminClient, places: Sequence[Place]) -> "dict[Place, Future[ListOffsetsResultInfo]]":
    if not places:
        return {}
    latest: Any = OffsetSpec  # its constructors are untyped
    futures = client.list_offsets(
        {at(place): latest.latest() for place in places},
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=ANSWER_WITHIN.total_seconds(),
    )
    return {Place(partition.topic, partition.partition): future for partition, future in futures.items()}


class KafkaEnds:
    """As ports.Ends."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._admin = RenewedAdminClient(connection, name)

    def ask(self, places: Sequence[Place]) -> KafkaEndsAsked:
        """As Ends.ask."""
        return KafkaEndsAsked(self._admin, places)

    def close(self) -> None:
        """As Ends.close."""
        self._admin.close()
