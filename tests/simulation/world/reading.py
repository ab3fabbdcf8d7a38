"""The bus's reading ports of one simulated process: LoopReader, Ends, Topics, and a reader that never waits.

Made by world.clients. Invariant: each log is read with a delay of its own; a partition that is out shows nothing; positions
move over what was handed out alone.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from headrace.bus.messages import Place, Received
from headrace.bus.ports import END, START, BusError, BusUnavailableError, FoundTopic
from headrace.contracts.topics import Topic
from tests.simulation.world.process import Process

_LAG_MS, _PROMPT_MS = (100, 3_000), (100, 2_500)


class Cursors:
    """Where a reader stands in each of its partitions, what it has paused, and which log comes late to it."""

    def __init__(self, process: Process) -> None:
        self.process, self._broker = process, process.stage.broker
        self.positions: dict[Place, int] = {}
        self.paused: frozenset[Place] = frozenset()
        self._spells: dict[Place, tuple[int, bool]] = {}
        self._turns = 0

    def assign(self, positions: Mapping[Place, int]) -> None:
        """Read exactly these. Raises BusUnavailableError while one of them can't be looked up."""
        self.positions = {place: self.resolve(place, at) for place, at in positions.items()}
        self._broker.listen(self.process, positions)

    def resolve(self, place: Place, position: int) -> int:
        """START and END as offsets. Raises BusUnavailableError."""
        if position >= 0:
            return position
        if self.process.is_out(place):
            raise BusUnavailableError(f"{place.topic}/{place.partition} doesn't answer")
        log = self._broker.logs[place]
        return {START: log.start, END: log.end}[position]

    def collect(self, limit: int) -> list[Received]:
        """What has come, of one log after the other. Raises PositionGoneError."""
        found: list[Received] = []
        self._turns += 1
        for place, position in self._in_turn():
            if place in self.paused or len(found) >= limit:
                continue
            log = self._broker.logs[place]
            if position == log.end or self.process.is_out(place) or self._is_late(place):
                continue
            records, self.positions[place] = log.read(position, limit - len(found))
            found += records
        return found

    def _in_turn(self) -> list[tuple[Place, int]]:
        items = list(self.positions.items())
        first = self._turns % len(items) if items else 0
        return items[first:] + items[:first]

    @property
    def late(self) -> bool:
        """Whether any log comes late now."""
        now_ms = self.process.stage.now_ms
        return any(late and now_ms < until_ms for until_ms, late in self._spells.values())

    def _is_late(self, place: Place) -> bool:
        """A log may come late: a fetch that takes its time, or a reader that hangs behind for seconds."""
        stage = self.process.stage
        if stage.now_ms < stage.lags.get((self.process.name, place.topic), 0):
            return True
        if not stage.faulty:
            return False
        until_ms, late = self._spells.get(place, (0, False))
        if stage.now_ms >= until_ms:
            late = stage.rng.random() < stage.weather.lag_share
            self._spells[place] = stage.now_ms + stage.rng.randint(*(_LAG_MS if late else _PROMPT_MS)), late
            stage.saw("lagging reader", late)
        return late or stage.rng.random() < 0.15


class SimLoopReader:
    """As ports.LoopReader. `late`: whether any of its logs comes late now."""

    def __init__(self, process: Process) -> None:
        self._cursors = Cursors(process)

    def assign(self, positions: Mapping[Place, int]) -> None:
        """As LoopReader.assign."""
        self._cursors.assign(positions)

    def read(self, limit: int, wait: timedelta) -> list[Received]:  # noqa: ARG002 - the process is turned when it pays
        """As LoopReader.read."""
        self._cursors.process.step()
        return self._cursors.collect(limit)

    def pause(self, places: set[Place]) -> None:
        """As LoopReader.pause."""
        self._cursors.paused = frozenset(places)

    def position(self, place: Place) -> int:
        """As LoopReader.position; past the markers that stand there."""
        log, position = self._cursors.process.stage.broker.logs[place], self._cursors.positions[place]
        while position < log.end and log.entries[position].received is None:
            position += 1
        return position

    def close(self) -> None:
        """As LoopReader.close."""
        self._cursors.positions = {}

    @property
    def late(self) -> bool:
        """For counting only."""
        return self._cursors.late


class SimTopics:
    """As ports.Topics. Topics are made with the world and never change."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def describe(self, names: Sequence[str]) -> dict[str, FoundTopic]:
        """As Topics.describe."""
        topics = self._process.stage.broker.topics
        return {name: topics[name] for name in names if name in topics}

    def create(self, topics: Sequence[Topic]) -> None:  # noqa: ARG002
        """As Topics.create."""
        raise BusError("the simulated topics are there from the beginning")

    def add_partitions(self, name: str, total: int) -> None:  # noqa: ARG002
        """As Topics.add_partitions."""
        raise BusError("the simulated topics never grow")

    def set_configs(self, name: str, configs: Mapping[str, str]) -> None:  # noqa: ARG002
        """As Topics.set_configs."""
        raise BusError("the simulated topics never change")

    def close(self) -> None:
        """As Topics.close."""


class SimAsyncReader:
    """As ports.AsyncReader, for code that reads what is there now: nothing in it ever waits."""

    def __init__(self, process: Process) -> None:
        self._process, self._cursors = process, Cursors(process)

    async def start(self) -> None:
        """As AsyncReader.start."""

    async def assign(self, positions: Mapping[Place, int]) -> None:
        """As AsyncReader.assign."""
        self._cursors.positions = {place: self._cursors.resolve(place, at) for place, at in positions.items()}

    async def read(self, limit: int, wait: timedelta) -> list[Received]:  # noqa: ARG002
        """As AsyncReader.read."""
        found: list[Received] = []
        for place, position in self._cursors.positions.items():
            self._cursors.resolve(place, END)
            records, self._cursors.positions[place] = self._process.stage.broker.logs[place].read(
                position, limit
            )
            found += records
        return found

    async def position(self, place: Place) -> int:
        """As AsyncReader.position."""
        return self._cursors.positions[place]

    async def ends(self, places: Sequence[Place]) -> dict[Place, int]:
        """As AsyncReader.ends."""
        return {place: self._cursors.resolve(place, END) for place in places}

    async def at_time(self, place: Place, timestamp_ms: int) -> int:
        """As AsyncReader.at_time."""
        self._cursors.resolve(place, END)
        return self._process.stage.broker.logs[place].at_time(timestamp_ms)

    async def stop(self) -> None:
        """As AsyncReader.stop."""
