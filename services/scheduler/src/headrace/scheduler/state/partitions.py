"""The request partitions of a pool: what is finished, what has been read, how much is in memory. Used by the core.

Invariant: `next_offset` never passes an unfinished request that isn't tracked in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.bus.messages import Place, Received
from headrace.contracts.checkpoints import Finished
from headrace.contracts.values import Origin
from headrace.scheduler.decisions.what_to_spill import Amount
from headrace.scheduler.decisions.when_to_pause import OVERHEAD, Window, paused_since
from headrace.scheduler.state.offsets import FinishedOffsets


@dataclass(slots=True)
class RequestPartition:
    """One of them. `records` and `size` (bytes) count what is read and unfinished; `dirty`: changed since the checkpoint;
    `paused_ms`: since when (ms since boot) it isn't read.

    `leader_epoch` is that of the newest record read, which stands before `read_to`. `known_to`, `known_leader`: the same, as
    the checkpoint says that the owner began with.
    """

    place: Place
    tier: str
    finished: FinishedOffsets = field(default_factory=FinishedOffsets)
    next_offset: int = 0
    records: int = 0
    size: int = 0
    paused_ms: int | None = None
    dirty: bool = False
    read_to: int = 0
    leader_epoch: int | None = None
    known_to: int = 0
    known_leader: int | None = None
    known_id: str | None = None
    """The topic's id, as the checkpoint says."""

    def note_leader(self, received: Received) -> bool:
        """False when the record isn't the one that the checkpoint spoke of: the log lost its end and has grown anew."""
        epoch = received.leader_epoch
        if epoch is None:
            return True
        self.leader_epoch, self.read_to = (
            max(epoch, self.leader_epoch or 0),
            max(self.read_to, received.offset + 1),
        )
        return received.offset >= self.known_to or self.known_leader is None or epoch <= self.known_leader

    def know(self, record: Finished) -> None:
        """Begin with what the last checkpoint says."""
        self.finished = FinishedOffsets(record.prefix, record.beyond)
        self.known_to = self.read_to = record.read_to
        self.known_leader = self.leader_epoch = record.leader_epoch
        self.known_id = record.topic_id

    def knows_its_leader(self) -> bool:
        """Whether it is known under which leaders the records before the prefix were written."""
        return self.known_leader is not None and self.finished.prefix <= self.known_to

    def finish(self, offset: int) -> None:
        """This offset is done with for good."""
        if self.finished.add(offset):
            self.dirty = True

    def hold(self, payload: int) -> None:
        """A request is in memory now, with so many bytes of payload."""
        self.records += 1
        self.size += payload + OVERHEAD

    def drop(self, payload: int) -> None:
        """It no longer is."""
        self.records -= 1
        self.size -= payload + OVERHEAD

    @property
    def paused(self) -> bool:
        """Whether it isn't read at present."""
        return self.paused_ms is not None

    def free(self, window: Window) -> Amount:
        """What the window would still take."""
        return Amount(max(0, window.high_records - self.records), max(0, window.high_bytes - self.size))

    def decide(self, window: Window, boot_ms: int, resume_after_ms: int, spilled: int = 0) -> None:
        """Pause or resume by the watermarks; a pause lasts `resume_after_ms` at least. `spilled`: requests."""
        self.paused_ms = paused_since(
            self.paused_ms,
            records=self.records,
            size=self.size,
            window=window,
            boot_ms=boot_ms,
            resume_after_ms=resume_after_ms,
            spilled=spilled,
        )


class RequestPartitions:
    """All of a pool, by place."""

    def __init__(self, tiers: Mapping[str, str], partitions: int) -> None:
        """`tiers` maps a request topic's name to its tier."""
        self.by_place = {
            place: RequestPartition(place, tier)
            for topic, tier in tiers.items()
            for number in range(partitions)
            for place in (Place(topic, number),)
        }
        self._of_topic: dict[str, dict[int, RequestPartition]] = {topic: {} for topic in tiers}
        for place, partition in self.by_place.items():
            self._of_topic[place.topic][place.partition] = partition

    def of(self, origin: Origin | Received) -> RequestPartition | None:
        """Where this origin is, or this record stands; None when that isn't of this pool."""
        of_topic = self._of_topic.get(origin.topic)
        return None if of_topic is None else of_topic.get(origin.partition)

    def at(self, origin: Origin | Received) -> RequestPartition:
        """The same where it is. Raises KeyError when it isn't of this pool."""
        return self._of_topic[origin.topic][origin.partition]

    def is_finished(self, origin: Origin) -> bool:
        """Whether the request that stands there is finished."""
        partition = self.of(origin)
        return partition is not None and origin.offset in partition.finished

    def finished_prefix(self, topic: str, partition: int) -> int | None:
        """Up to where all of a partition is finished; None: it isn't of this pool."""
        found = self.by_place.get(Place(topic, partition))
        return None if found is None else found.finished.prefix

    def paused(self) -> set[Place]:
        """Those that aren't read at present."""
        return {place for place, partition in self.by_place.items() if partition.paused}
