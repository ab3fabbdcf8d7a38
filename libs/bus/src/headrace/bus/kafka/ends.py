"""Ends on librdkafka's admin client: asked of the brokers, never of a cache. Made by KafkaBus."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient

from headrace.bus.kafka.admin_client import RenewedAdminClient
from headrace.bus.kafka.admin_types import ListOffsetsResultInfo, OffsetSpec
from headrace.bus.kafka.asking import KafkaAsked
from headrace.bus.kafka.connection import ANSWER_WITHIN, KafkaConnection
from headrace.bus.kafka.narrowing import at
from headrace.bus.messages import Place
from headrace.bus.ports import BusUnavailableError


class KafkaEnds:
    """As ports.Ends."""

    def __init__(self, connection: KafkaConnection, name: str) -> None:
        self._admin = RenewedAdminClient(connection, name)

    def ask(self, places: Sequence[Place]) -> KafkaAsked[Place, int]:
        """As Ends.ask. A topic that doesn't exist is an error, and not left out."""

        def ask(client: AdminClient) -> Mapping[Place, Future[Any]]:
            return _ask(client, places)

        return KafkaAsked(
            self._admin, ask, _known_end, "asking for the ends of logs failed", left_out=frozenset()
        )

    def close(self) -> None:
        """As Ends.close."""
        self._admin.close()


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


def _known_end(answer: ListOffsetsResultInfo) -> int:
    # A broker on its way down or up may leave an offset unset, and call that no error.
    if answer.offset < 0:
        raise BusUnavailableError("the end of a log isn't known yet")
    return answer.offset
