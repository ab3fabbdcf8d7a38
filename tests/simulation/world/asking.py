"""Questions to the simulated brokers that are asked without waiting: ends, trims, topic ids. Made by world.clients.

Invariant: what is asked happens at some moment after the question, and is told at some moment after that.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from headrace.bus.messages import Place
from headrace.bus.ports import BusUnavailableError
from tests.simulation.world.process import Process

V = TypeVar("V")


class SimAsked(Generic[V]):
    """As ports.Asked. `at_broker` answers, or raises BusUnavailableError."""

    def __init__(self, process: Process, at_broker: Callable[[], V]) -> None:
        self._process, self._at_broker = process, at_broker
        self._found: V | None = None
        self._failed: BusUnavailableError | None = None
        self._told = False
        process.step()
        stage = process.stage
        stage.clockwork.after(stage.weather.delay_ms(), self._ask)

    def answer(self) -> V | None:
        """As Asked.answer."""
        if not self._told:
            return None
        if self._failed is not None:
            raise self._failed
        return self._found

    def _ask(self) -> None:
        stage = self._process.stage
        try:
            self._found = self._at_broker()
        except BusUnavailableError as error:
            self._failed = error
        late_ms = stage.lags.get((self._process.name, "answers"), 0) - stage.now_ms
        delay_ms = stage.weather.delay_ms() if self._failed is None else 500
        stage.clockwork.after(max(delay_ms, late_ms), self._tell)

    def _tell(self) -> None:
        self._told = True
        self._process.woken()


class SimEnds:
    """As ports.Ends."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def ask(self, places: Sequence[Place]) -> SimAsked[dict[Place, int]]:
        """As Ends.ask."""
        asked = tuple(places)

        def ends() -> dict[Place, int]:
            _check(self._process, asked)
            stage = self._process.stage
            return {place: stage.weather.stale_end(stage.broker.logs[place].end) for place in asked}

        return SimAsked(self._process, ends)

    def close(self) -> None:
        """As Ends.close."""


class SimTrims:
    """As ports.Trims."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def ask(self, before: Mapping[Place, int]) -> SimAsked[dict[Place, int]]:
        """As Trims.ask; a partition that is out is left out of the answer."""
        asked, stage = dict(before), self._process.stage

        def trim() -> dict[Place, int]:
            here = {place: at for place, at in asked.items() if not self._process.is_out(place)}
            for place, at in here.items():
                stage.broker.trim(place, at)
                stage.saw("trimmed log", at > 0)
            return {place: stage.broker.logs[place].start for place in here}

        return SimAsked(self._process, trim)

    def close(self) -> None:
        """As Trims.close."""


class SimTopicIds:
    """As ports.TopicIds."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def ask(self, names: Sequence[str]) -> SimAsked[dict[str, str]]:
        """As TopicIds.ask."""
        topics, asked = self._process.stage.broker.topics, tuple(names)
        return SimAsked(self._process, lambda: {name: topics[name].id for name in asked if name in topics})

    def close(self) -> None:
        """As TopicIds.close."""


def _check(process: Process, places: Sequence[Place]) -> None:
    for place in places:
        if process.is_out(place):
            raise BusUnavailableError(f"{place.topic}/{place.partition} doesn't answer")
