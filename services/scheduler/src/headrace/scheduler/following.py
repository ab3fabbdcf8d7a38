"""Follows a pool's logs while its owner lives, so that little is left to read once it has died. Driven by watching.

Invariant: memory is bounded by a window of each request partition; `workers` is folded up to where the owner had surely read
it when it wrote its last checkpoint, and kept from there on, since the deaths in there may be news.
"""

from collections import deque
from collections.abc import Iterable
from datetime import timedelta

from headrace.bus.messages import Place, Received
from headrace.bus.ports import START, LoopReader, PositionGoneError
from headrace.contracts.checkpoints import Finished
from headrace.contracts.clock import Now
from headrace.contracts.codec import UndecodableError, decode
from headrace.contracts.durations import ms
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_state import PoolState
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.state.offsets import FinishedOffsets
from headrace.scheduler.state.read_ahead import ReadAhead
from headrace.scheduler.state.workers import Workers

_BATCH = 500
_PART = 4
"""A standby keeps this part of an owner's window: enough to go on with, and it may stand by for many pools."""
_NO_WAIT = timedelta()
_READ_BY_THEN = timedelta(seconds=10)
"""An owner that is further behind in `workers` than this has other troubles."""
_MOST_REPORTS = 20_000


class Following:
    """One pool's logs, read ahead. Does nothing before `start`."""

    def __init__(self, setting: Setting, reader: LoopReader) -> None:
        self._setting, self._reader = setting, reader
        self._workers_place = setting.place(TopicKind.WORKERS)
        self._window = _part_of(setting.window)
        self._paused: set[Place] = set()
        self.ahead: dict[Place, ReadAhead] = {}
        self.started = False
        self._workers, self._workers_read, self._greatest_epoch = Workers(), 0, 0
        self._reports: deque[Received] = deque()

    def start(self, finished: Iterable[Finished]) -> None:
        """Read on from these checkpoints. Raises BusError."""
        self.ahead = {place: ReadAhead(0) for place in self._setting.request_places()}
        for record in finished:
            self.know(record)
        for ahead in self.ahead.values():
            ahead.next_offset = ahead.finished.prefix
        self._assign()
        self.started = True

    def know(self, record: Finished) -> None:
        """A checkpoint was read."""
        ahead = self.ahead.get(Place(record.topic, record.partition))
        if ahead is not None:
            ahead.know(FinishedOffsets(record.prefix, record.beyond))

    def turn(self, now: Now, checkpoint_ms: int) -> None:
        """Read what is there. `checkpoint_ms`: when the last checkpoint was written, Unix ms. Raises BusUnavailableError."""
        if not self.started:
            return
        try:
            for received in self._reader.read(_BATCH, _NO_WAIT):
                if received.place == self._workers_place:
                    self._reports.append(received)
                else:
                    self.ahead[received.place].read(received)
        except PositionGoneError as error:
            self._begin_anew(error.place)
        while self._reports and self._may_fold(self._reports[0], checkpoint_ms):
            self._fold(self._reports.popleft())
        self._pause(now)

    def behind(self, ends: dict[Place, int]) -> int:
        """Records of `requests` that it would read now and hasn't yet, given the ends of the logs."""
        reading = ((place, ahead) for place, ahead in self.ahead.items() if not ahead.paused)
        return sum(max(0, ends.get(place, 0) - ahead.next_offset) for place, ahead in reading)

    @property
    def prefetched(self) -> int:
        """Records in memory."""
        return sum(len(ahead.records) for ahead in self.ahead.values())

    def hand_over(self, state: PoolState) -> tuple[list[Received], dict[Place, int]]:
        """Give the new owner what is known: workers into its state; the records read ahead, and from where to read on."""
        state.workers, state.workers_read = self._workers, self._workers_read
        if self._greatest_epoch > state.epoch:
            state.greater_epoch = self._greatest_epoch
        records = list(self._reports)
        positions = {} if not records else {self._workers_place: records[-1].offset + 1}
        for place, ahead in self.ahead.items():
            begin = state.partitions.by_place[place].next_offset
            kept = [record for record in ahead.all() if record.offset >= begin]
            if kept:
                records += kept
                positions[place] = ahead.next_offset
        self.ahead = {}
        return records, positions

    def _may_fold(self, received: Received, checkpoint_ms: int) -> bool:
        known_by_all = received.timestamp_ms < checkpoint_ms - ms(_READ_BY_THEN)
        return known_by_all or len(self._reports) > _MOST_REPORTS

    def _fold(self, received: Received) -> None:
        self._workers_read = received.offset + 1
        try:
            record = decode(TopicKind.WORKERS, received.header)
        except UndecodableError:
            return  # the owner dead-letters it
        self._workers.follow(record, lanes=self._setting.policy.topics.lanes)
        self._greatest_epoch = max(self._greatest_epoch, getattr(record, "epoch", 0))

    def _begin_anew(self, place: Place) -> None:
        """What stood there was trimmed: `workers` by the hour, `requests` behind the owner, which is far ahead of us."""
        if place == self._workers_place:
            self._workers, self._workers_read = Workers(), 0
            self._reports.clear()
        else:
            finished = self.ahead[place].finished
            self.ahead[place] = ReadAhead(finished.prefix, finished)
        self._assign()

    def _assign(self) -> None:
        positions = {place: ahead.next_offset for place, ahead in self.ahead.items()}
        reports = self._reports[-1].offset + 1 if self._reports else self._workers_read or START
        self._reader.assign({**positions, self._workers_place: reports})

    def _pause(self, now: Now) -> None:
        resume_ms = ms(self._setting.timings.resume)
        for ahead in self.ahead.values():
            ahead.decide(self._window, now.boot_ms, resume_ms)
        paused = {place for place, ahead in self.ahead.items() if ahead.paused}
        if paused != self._paused:
            self._paused = paused
            self._reader.pause(paused)


def _part_of(window: Window) -> Window:
    return Window(
        max(1, window.high_records // _PART),
        window.low_records // _PART,
        max(1, window.high_bytes // _PART),
        window.low_bytes // _PART,
    )
