"""What goes onto a log and what comes off it. Used by every adapter of the bus and by whoever reads or writes a topic.

Structs, since one of each is made for every record: a frozen dataclass takes ten times as long. The garbage collector passes
them by, as it does the records that are made of them: nothing in them refers back, and an owner holds hundreds of thousands.
"""

from typing import NamedTuple

from msgspec import Struct

from headrace.contracts.codec import HEADER, AnyRecord, encode, find_header

Headers = tuple[tuple[str, bytes], ...]


class Place(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Message(Struct, frozen=True, gc=False):
    """What is to be written. The partition is always named: no client's default partitioner decides anything here."""

    topic: str
    partition: int
    value: bytes | None = b""
    headers: Headers = ()
    key: bytes | None = None

    @property
    def place(self) -> Place:
        """Where it goes."""
        return Place(self.topic, self.partition)


class Received(Struct, frozen=True, gc=False):
    """What was read. A `value` of None is a tombstone; empty bytes are not. `timestamp_ms` is the broker's, Unix ms.

    `leader_epoch` counts the leaders that the partition has had; None where the client doesn't tell.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    headers: Headers = ()
    key: bytes | None = None
    leader_epoch: int | None = None

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.topic, self.partition)

    @property
    def header(self) -> bytes | None:
        """The `headrace` header, undecoded: the caller decodes it and says what an undecodable one means."""
        return find_header(self.headers)


def message_of(
    place: Place,
    record: AnyRecord,
    value: bytes | None = b"",
    *,
    key: bytes | None = None,
    trace: Headers = (),
) -> Message:
    """A message that carries this record in its `headrace` header, trace headers beside it; without value, a tombstone."""
    return Message(place.topic, place.partition, value, ((HEADER, encode(record)), *trace), key)
