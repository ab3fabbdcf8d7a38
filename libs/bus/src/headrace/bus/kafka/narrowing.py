"""Narrows confluent-kafka's loose types to ours. The one file that knows what they may be; called by its adapters."""

from collections.abc import Iterable, Mapping
from sys import intern

from confluent_kafka import Message as ClientMessage
from confluent_kafka import TopicPartition

from headrace.bus.messages import Headers, Place, Received
from headrace.contracts.codec import HEADER, TRACE_HEADERS

_NAMES = {name: name for name in (HEADER, *TRACE_HEADERS)}
"""Shared by all records, as topics are: the client makes them anew for each, and an owner keeps tens of thousands."""


def _bytes(value: object) -> bytes | None:
    return value if isinstance(value, bytes) or value is None else str(value).encode()


def headers_of(message: ClientMessage) -> Headers:
    """Its headers, in order. A header without a value reads as an empty one."""
    found = message.headers() or []
    pairs = found.items() if isinstance(found, dict) else found
    return tuple([(_NAMES.get(name, name), _bytes(value) or b"") for name, value in pairs])


def place_of(message: ClientMessage) -> Place:
    """Where a message, or an error about a partition, belongs."""
    partition = message.partition()
    return Place(intern(message.topic() or ""), -1 if partition is None else partition)


def received_of(message: ClientMessage) -> Received:
    """A message that was read, without its error."""
    place, offset = place_of(message), message.offset()
    return Received(
        place.topic,
        place.partition,
        -1 if offset is None else offset,
        message.timestamp()[1],
        _bytes(message.value()),
        headers_of(message),
        _bytes(message.key()),
        message.leader_epoch(),
    )


def at(place: Place, offset: int | None = None) -> TopicPartition:
    """A place, and a position in it if given, as the client takes them."""
    if offset is None:
        return TopicPartition(place.topic, place.partition)
    return TopicPartition(place.topic, place.partition, offset)


def all_at(positions: Mapping[Place, int]) -> list[TopicPartition]:
    """Several positions as the client takes them."""
    return [at(place, offset) for place, offset in positions.items()]


def places_of(partitions: Iterable[TopicPartition]) -> list[Place]:
    """Places out of what the client says."""
    return [Place(one.topic, one.partition) for one in partitions]
