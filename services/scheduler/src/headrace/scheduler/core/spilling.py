"""Keeps of a tenant over its bound the metadata alone, and has payloads read again when its turn nears. Driven by PoolCore.

Invariant: what is spilled waits, hasn't been tried and is unfinished, so that the log still has it; what comes back
must be the record that was read: anything else stops the pool with a sentence.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from headrace.bus.messages import Place, Received
from headrace.bus.ports import Run, RunRead
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.counted import Counted
from headrace.scheduler.core.endings import Endings
from headrace.scheduler.core.pool_state import MINUTE_MS, PoolState
from headrace.scheduler.decisions.what_to_spill import (
    SpillBounds,
    may_be_read_again,
    may_stay,
    runs_of,
    within,
)
from headrace.scheduler.decisions.when_to_pause import OVERHEAD
from headrace.scheduler.state.packed import Stub
from headrace.scheduler.state.spilled import Whose
from headrace.scheduler.state.tracked import Phase, Tracked, trace_of

_LATE_MS = 30_000
"""A payload that hasn't come by then: an operator is told."""


@dataclass(slots=True)
class _Reading:
    """A run that is being read again: which request should stand at which offset, for whom, since when it is awaited.
    `again`: for the second time, as something was missing. `whose` None: its requests are in memory already.
    """

    stubs: dict[int, Stub]
    whose: Whose | None
    since_ms: int
    again: bool = False


class Spilling:
    """What of the queue is in memory."""

    def __init__(self, state: PoolState, endings: Endings) -> None:
        self._state, self._endings = state, endings
        self._bounds = state.setting.spill
        self._readings: dict[Run, list[_Reading]] = {}
        self._wanted: set[str] = set()
        """Ids in the runs under way."""
        self._fed: Counter[Whose] = Counter()
        """How many runs are under way for a tenant."""
        self._size = 0
        """Bytes of their payloads."""
        self._told_ms = -MINUTE_MS

    @property
    def under_way(self) -> bool:
        """Whether any payload is awaited."""
        return bool(self._readings)

    def spills(self, tracked: Tracked) -> bool:
        """Whether a request that has just been read, and may run, waits by its metadata alone from now on."""
        if self._bounds is None or self._must_stay(tracked):
            return False
        state, record = self._state, tracked.record
        partition = state.partitions.at(tracked.origin)
        size = len(tracked.value)
        state.queue.assign(tracked)
        partition.drop(size)  # it is counted already, but asks whether it may be
        own, free = state.queue.in_memory(record.tier, record.tenant), partition.free(state.setting.window)
        stays = state.queue.goes_before_spilled(tracked) and may_stay(
            own, free, self._bounds, is_next=state.queue.goes_first(tracked)
        )
        if stays or not state.tracked.spill(tracked):
            partition.hold(size)
            return False
        state.queue.put_spilled(tracked)
        state.count(Counted.SPILLED)
        return True

    def read(self, runs: Iterable[RunRead]) -> None:
        """Runs that were asked for have come."""
        for each in runs:
            for reading in self._readings.pop(each.run, []):
                self._take_in(each, reading)

    def turn(self) -> None:
        """Ask for what is wanted next."""
        if self._bounds is None:
            return
        state = self._state
        for tracked in list(state.unread.values()):
            if tracked.id not in self._wanted:
                place, offset = _place_of(tracked), tracked.origin.offset
                self._ask([Stub(tracked.id, place, offset, tracked.record.payload.size)], None, self._bounds)
        hungry = sorted(
            (whose for whose in state.queue.hungry if not self._fed[whose]),
            key=lambda whose: (state.queue.in_memory(*whose), whose),
        )
        for whose in hungry:
            if self._size >= self._bounds.under_way:
                break
            del state.queue.hungry[whose]
            self._feed(whose, self._bounds)
        self._tell_of_late()

    def _must_stay(self, tracked: Tracked) -> bool:
        """What has been tried, or is suspected, is kept whole: there are few of them."""
        state = self._state
        return tracked.id in state.retrying or tracked.id in state.suspects.group_of or tracked.used > 0

    def _feed(self, whose: Whose, bounds: SpillBounds) -> None:
        """Have the first of a tenant read again, if it has too little in memory."""
        state = self._state
        place = state.spilled.place_of(*whose)
        if place is None:
            return
        partition = state.partitions.by_place[place]
        room = may_be_read_again(
            state.queue.in_memory(*whose),
            partition.free(state.setting.window),
            bounds,
            next_is_here=state.queue.next_is_here(*whose),
        )
        if room.records <= 0:
            return
        stubs = list(islice(state.queue.spilled_next(*whose), min(room.records, bounds.run)))
        count = within((stub.size + OVERHEAD for stub in stubs), room)
        self._ask(stubs[:count], whose, bounds)

    def _ask(self, stubs: list[Stub], whose: Whose | None, bounds: SpillBounds) -> None:
        by_place: dict[Place, dict[int, Stub]] = {}
        for stub in stubs:
            by_place.setdefault(stub.place, {})[stub.offset] = stub
        for place, by_offset in by_place.items():
            for run in runs_of(by_offset, bounds):
                part = {offset: stub for offset, stub in by_offset.items() if offset in run}
                self._begin(Run(place, run.start, run.stop), _Reading(part, whose, self._state.now.boot_ms))

    def _begin(self, run: Run, reading: _Reading) -> None:
        self._readings.setdefault(run, []).append(reading)
        if len(self._readings[run]) == 1:
            self._state.out.read_again.append(run)
        if reading.whose is not None:
            self._fed[reading.whose] += 1
        for stub in reading.stubs.values():
            self._wanted.add(stub.id)
            self._size += stub.size

    def _ended(self, reading: _Reading) -> None:
        for stub in reading.stubs.values():
            self._wanted.discard(stub.id)
            self._size -= stub.size
        if reading.whose is not None:
            self._fed[reading.whose] -= 1
            if not self._fed[reading.whose]:
                del self._fed[reading.whose]
            self._state.queue.hungry[reading.whose] = None

    def _take_in(self, came: RunRead, reading: _Reading) -> None:
        self._ended(reading)
        here = {received.offset: received for received in came.records}
        wanted = {offset: stub for offset, stub in reading.stubs.items() if self._is_wanted(stub)}
        missing = {offset: stub for offset, stub in wanted.items() if offset not in here}
        for offset, stub in wanted.items():
            received = here.get(offset)
            record = None if received is None else _record_of(received)
            if received is not None and record is not None and record.id == stub.id:
                self._came(stub, received, record)
            elif received is not None:
                self._tell_of_wrong(stub, "another record stands there")
        if missing and not reading.again:
            again = _Reading(missing, reading.whose, self._state.now.boot_ms, again=True)
            self._begin(Run(came.run.place, min(missing), max(missing) + 1), again)
        elif missing:
            self._tell_of_wrong(next(iter(missing.values())), "no record stands there")

    def _is_wanted(self, stub: Stub) -> bool:
        return stub.id in self._state.unread or stub.id in self._state.spilled

    def _came(self, stub: Stub, received: Received, record: RequestRecord) -> None:
        state = self._state
        tracked = state.unread.pop(stub.id, None)
        taken = tracked is None
        tracked = state.tracked.take_spilled(stub.id) if tracked is None else tracked
        tracked.record, tracked.received = record, received
        tracked.trace = trace_of(received.headers)
        state.partitions.by_place[stub.place].hold(len(tracked.value))
        state.count(Counted.READ_AGAIN)
        if taken:
            state.in_memory_again(tracked)
        elif tracked.phase is Phase.WAITING:
            state.queue.payload_came(tracked)
        elif tracked.phase is Phase.ENDING:
            self._endings.payload_came(tracked)

    def _tell_of_wrong(self, stub: Stub, what: str) -> None:
        place = stub.place
        self._state.out.stop = (
            f"the payload of {stub.id} is needed from {place.topic}/{place.partition}, offset {stub.offset}, but {what}: "
            "the log isn't the one that was read; bring it back, or delete all topics of this pool and make them anew"
        )

    def _tell_of_late(self) -> None:
        now_ms = self._state.now.boot_ms
        late = [run for run, readings in self._readings.items() if now_ms - readings[0].since_ms >= _LATE_MS]
        if late and now_ms - self._told_ms >= MINUTE_MS:
            self._told_ms = now_ms
            self._state.notice(
                "payloads that were to be read again don't come", warning=True, topic=late[0].place.topic,
                partition=late[0].place.partition, offset=late[0].first, runs=len(late),
            )  # fmt: skip


def _place_of(tracked: Tracked) -> Place:
    return Place(tracked.origin.topic, tracked.origin.partition)


def _record_of(received: Received) -> RequestRecord | None:
    try:
        record = decode(TopicKind.REQUESTS, received.header)
    except UndecodableError:
        return None
    return record if isinstance(record, RequestRecord) else None
