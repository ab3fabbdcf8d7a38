"""Reads runs of a log again that were read before: asked without waiting, and looked for now and then. Part of bus.ports.

Called by the scheduler's loop for payloads that it doesn't keep. One reader on any bus: `RunReader` needs of it only that it
reads from given positions. Invariant: each run that was asked for is told once, with all that stands in it, or not at all.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from headrace.bus.errors import BusUnavailableError, PositionGoneError
from headrace.bus.messages import Place, Received

_NO_WAIT = timedelta()


@dataclass(frozen=True, slots=True)
class Run:
    """The records of one partition from `first` up to, and without, `stop`. A record must stand at the last offset."""

    place: Place
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class RunRead:
    """A run, and what stands in it; an offset without a record, as a transaction's marker, is left out."""

    run: Run
    records: Sequence[Received]


class Rereads(Protocol):
    """Only the loop's own thread touches it."""

    def ask(self, run: Run) -> None:
        """To read it. Runs of one partition are read one after the other, those of several at the same time."""
        ...

    def answers(self, limit: int) -> list[RunRead]:
        """Which have come, having looked at `limit` records at most. Doesn't wait; what can't be read now is tried again.

        Raises PositionGoneError, and goes on to try; BusError.
        """
        ...

    def give_up(self, place: Place) -> list[Run]:
        """Forget what was asked of a partition and hasn't come: those runs."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


class Reading(Protocol):
    """What it needs of a reader: as LoopReader, but that `assign` waits for nothing."""

    def assign(self, positions: Mapping[Place, int]) -> None:
        """As LoopReader.assign."""
        ...

    def read(self, limit: int, wait: timedelta) -> list[Received]:
        """As LoopReader.read."""
        ...

    def close(self) -> None:
        """As LoopReader.close."""
        ...


class RunReader:
    """As Rereads. The reader is made when the first run is asked for: most of the time nobody needs one."""

    def __init__(self, open_reader: Callable[[], Reading]) -> None:
        self._open_reader = open_reader
        self._reader: Reading | None = None
        self._asked: dict[Place, deque[Run]] = {}
        self._found: dict[Place, list[Received]] = {}
        self._elsewhere: set[Place] = set()
        """Partitions of which the reader doesn't read what is first in `asked`."""

    def ask(self, run: Run) -> None:
        """As Rereads.ask."""
        runs = self._asked.get(run.place)
        if runs is None:
            runs = self._asked[run.place] = deque()
            self._found[run.place] = []
            self._elsewhere.add(run.place)
        runs.append(run)

    def answers(self, limit: int) -> list[RunRead]:
        """As Rereads.answers."""
        if not self._elsewhere and not self._asked:
            return []
        self._reader = self._reader or self._open_reader()
        try:
            if self._elsewhere:
                self._reader.assign({place: self._position(place) for place in self._asked})
                self._elsewhere.clear()
            records = self._reader.read(limit, _NO_WAIT) if self._asked else []
        except BusUnavailableError:
            return []
        except PositionGoneError as error:
            self._elsewhere.add(error.place)
            raise
        answers: list[RunRead] = []
        for received in records:
            answers += self._take(received)
        return answers

    def give_up(self, place: Place) -> list[Run]:
        """As Rereads.give_up."""
        self._found.pop(place, None)
        self._elsewhere.add(place)
        return list(self._asked.pop(place, ()))

    def close(self) -> None:
        """As Rereads.close."""
        if self._reader is not None:
            self._reader.close()

    def _position(self, place: Place) -> int:
        found = self._found[place]
        return found[-1].offset + 1 if found else self._asked[place][0].first

    def _take(self, received: Received) -> list[RunRead]:
        """The runs that end with this record: it is the last of one, or stands behind it."""
        place, ended = received.place, list[RunRead]()
        while self._is_read(place) and received.offset >= self._asked[place][0].first:
            run = self._asked[place][0]
            if received.offset < run.stop:
                self._found[place].append(received)
            if received.offset < run.stop - 1:
                break
            ended.append(RunRead(run, tuple(self._found[place])))
            self._next(place)
            if received.offset < run.stop:
                break
        return ended

    def _is_read(self, place: Place) -> bool:
        """Whether what comes of this partition is of its first run: a client may hand out something of an old assignment."""
        return place in self._asked and place not in self._elsewhere

    def _next(self, place: Place) -> None:
        """The first run of a partition is told."""
        runs = self._asked[place]
        told = runs.popleft()
        self._found[place] = []
        if not runs:
            del self._asked[place], self._found[place]
        if not runs or runs[0].first != told.stop:
            self._elsewhere.add(place)
