"""What the bus offers, in two faces: for plain loops (scheduler, result-delivery) and for asyncio (ingest, worker).

Implemented by headrace.bus.kafka and headrace.bus.memory; both pass the same contract suite. Nothing here retries for ever:
what can't be known is raised or confirmed as unknown, and the caller's core decides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from msgspec import Struct

from headrace.bus import asking, errors, rereads
from headrace.bus.messages import Message, Place, Received
from headrace.contracts.topics import Topic

# Whoever takes a port takes its errors from here too.
BusError = errors.BusError
BusUnavailableError = errors.BusUnavailableError
CommitFailedError = errors.CommitFailedError
DeliveryUnknownError = errors.DeliveryUnknownError
FencedError = errors.FencedError
PositionGoneError = errors.PositionGoneError
QueueFullError = errors.QueueFullError
TooLargeError = errors.TooLargeError
TooFewBrokersError = errors.TooFewBrokersError

# Questions that are asked without waiting.
EndsAsked = asking.Asked[dict[Place, int]]
Ends = asking.Ends
Trims = asking.Trims
TrimsAsked = asking.Asked[dict[Place, int]]
TopicIds = asking.TopicIds
TopicIdsAsked = asking.Asked[dict[str, str]]
Run = rereads.Run
RunRead = rereads.RunRead
Rereads = rereads.Rereads

START = -2
"""As a position: the first offset that the log still has."""
END = -1
"""As a position: after the last record at the moment of the call."""


class Confirmation(Struct, frozen=True):
    """What became of a send: `offset` when it is in the log; else `error`, with `unknown` when it may be there."""

    token: object
    place: Place
    offset: int | None
    error: BusError | None = None

    @property
    def unknown(self) -> bool:
        """Whether the record may be in the log although nobody confirmed it."""
        return isinstance(self.error, DeliveryUnknownError)


class LoopProducer(Protocol):
    """An idempotent producer (acks=all) for a plain loop. Per partition, confirmations come in the order of the sends."""

    def send(self, message: Message, token: object) -> None:
        """Queue a message; `token` comes back with its confirmation. Raises QueueFullError, TooLargeError."""
        ...

    def confirmations(self) -> list[Confirmation]:
        """What was confirmed or refused since the last call. Doesn't wait. A fatal client error recreates the client."""
        ...

    def flush(self, timeout: timedelta) -> int:
        """Wait for what is queued; the number still unconfirmed. Confirmations stay to be fetched."""
        ...

    def close(self, *, drop: bool = False) -> None:
        """Stop. `drop`: throw away what is queued (an owner that lost its pool must write nothing more)."""
        ...


class LoopReader(Protocol):
    """Reads named partitions from given positions; no group, no commits. Only the loop's own thread touches it."""

    def assign(self, positions: Mapping[Place, int]) -> None:
        """Read exactly these from now on, from these positions (offset, START or END). Paused ones stay paused."""
        ...

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """Up to `limit` records, as soon as there is one; empty after `wait`. Never a record of a paused partition.

        Raises PositionGoneError, BusUnavailableError (try again).
        """
        ...

    def pause(self, places: set[Place]) -> None:
        """Our own pause set is exactly this from now on; what the client had prefetched is read again later."""
        ...

    def position(self, place: Place) -> int:
        """The next offset that `read` will return of it or, past transaction markers, would look at."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


class GroupReader(Protocol):
    """A member of a classic consumer group whose positions are kept by the caller, not by Kafka."""

    def subscribe(
        self,
        topics: Sequence[str],
        *,
        assigned: Callable[[list[Place]], Mapping[Place, int]],
        revoked: Callable[[list[Place]], None],
    ) -> None:
        """Join. `assigned` answers from which position each new partition is read; `revoked` also tells of losses."""
        ...

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As LoopReader.read. Rebalance-class errors are not raised."""
        ...

    def pause(self, places: set[Place]) -> None:
        """Our own pause set; it is re-applied on every assignment."""
        ...

    def seek(self, positions: Mapping[Place, int]) -> None:
        """Go back (after a rolled back transaction) or forward. Only partitions that are assigned."""
        ...

    def close(self) -> None:
        """Leave the group, at once and politely."""
        ...


class FencedState(Protocol):
    """Checkpoints of one owner, in transactions of one transactional.id. All calls return at once and are polled."""

    def claim(self) -> bool:
        """Fence the predecessor. False: not yet, call again. Raises BusError."""
        ...

    def begin(self, messages: Sequence[Message]) -> None:
        """Start writing one checkpoint, in one transaction. One at a time."""
        ...

    def committed(self) -> bool:
        """Whether the checkpoint is committed. False: not yet, call again. Raises FencedError, CommitFailedError."""
        ...

    def close(self) -> None:
        """Stop; an open transaction is left to be aborted."""
        ...


class AsyncProducer(Protocol):
    """An idempotent producer for asyncio."""

    async def start(self) -> None:
        """Connect. Raises BusUnavailableError."""
        ...

    async def send(self, message: Message) -> int:
        """Write and wait for the confirmation; the offset. Order is kept per partition. Cancelling the caller doesn't unsend.

        Raises DeliveryUnknownError where it may have been written or may be yet; any other BusError (no broker answers, too
        large, no such topic, not allowed) only where it is certain that it wasn't and won't be.
        """
        ...

    async def stop(self) -> None:
        """Flush within a bound and stop."""
        ...


class AsyncReader(Protocol):
    """Reads named partitions from given positions, for asyncio; no group, no commits. Sees committed records only."""

    async def start(self) -> None:
        """Connect; nothing, where that is done already. Raises BusUnavailableError."""
        ...

    async def assign(self, positions: Mapping[Place, int]) -> None:
        """As LoopReader.assign. START and END are resolved before this returns."""
        ...

    async def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As LoopReader.read."""
        ...

    async def position(self, place: Place) -> int:
        """As LoopReader.position."""
        ...

    async def ends(self, places: Sequence[Place]) -> dict[Place, int]:
        """The offset after the last committed record of each, from the broker. Raises BusUnavailableError."""
        ...

    async def at_time(self, place: Place, timestamp_ms: int) -> int:
        """The first offset whose broker timestamp is at or after this Unix time; the end when there is none."""
        ...

    async def stop(self) -> None:
        """Stop."""
        ...


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as the brokers have it. `id` tells a recreated topic from the old one."""

    name: str
    id: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class Topics(Protocol):
    """The administrator's side. Called by `headrace topics` and start-up checks."""

    def describe(self, names: Sequence[str]) -> dict[str, FoundTopic]:
        """Those of the names that exist. Waits; raises BusUnavailableError."""
        ...

    def create(self, topics: Sequence[Topic]) -> None:
        """Create these. One that exists already is no error."""
        ...

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        ...

    def set_configs(self, name: str, configs: Mapping[str, str]) -> None:
        """Change these settings and no others."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


class Bus(Protocol):
    """Makes the clients. `name` becomes the client.id, so that a broker's log says who it was."""

    def loop_producer(self, name: str, *, delivery_timeout: timedelta) -> LoopProducer:
        """A producer for a plain loop; a send is confirmed or given up within `delivery_timeout`."""
        ...

    def loop_reader(self, name: str) -> LoopReader:
        """A reader for a plain loop; sees committed records only."""
        ...

    def rereads(self, name: str) -> Rereads:
        """Reads runs of logs again."""
        ...

    def group_reader(self, name: str, group: str) -> GroupReader:
        """A member of `group`."""
        ...

    def fenced_state(self, name: str, *, place: Place, transactional_id: str) -> FencedState:
        """The checkpoints in `place`."""
        ...

    def ends(self, name: str) -> Ends:
        """Asks for ends of logs."""
        ...

    def trims(self, name: str) -> Trims:
        """Deletes what lies at the beginning of logs."""
        ...

    def topic_ids(self, name: str) -> TopicIds:
        """Asks which topics these are."""
        ...

    def async_producer(
        self, name: str, *, delivery_timeout: timedelta, acks_all: bool = True
    ) -> AsyncProducer:
        """A producer for asyncio. `acks_all` false: the leader's word suffices and order may suffer (live chunks)."""
        ...

    def async_reader(self, name: str) -> AsyncReader:
        """A reader for asyncio."""
        ...

    def topics(self, name: str) -> Topics:
        """The administrator's side."""
        ...
