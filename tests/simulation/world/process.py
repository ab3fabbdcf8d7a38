"""A simulated process: turned when something came for it or when it wanted to, killed at any step, paused, resumed.

Made by world.run; its kinds are schedulers, workers, deliverers and gateways. Invariant: a killed process loses its memory
and nothing else; a paused one goes on later as if nothing had happened.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from headrace.bus.messages import Place
from headrace.contracts.durations import ms
from tests.simulation.world.clockwork import SimClock
from tests.simulation.world.stage import Stage
from tests.simulation.world.wire import Channel

_NEVER = 10**12
T = TypeVar("T")


class Killed(BaseException):
    """The process dies here, in the middle of whatever it does. No product code catches it."""


class Process(ABC):
    """One process. `name` is the one that it has in the product's settings and records, too."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage, self.name = stage, name
        self.clock = SimClock(stage.clockwork, stage.rng.randint(1_000_000, 9_000_000))
        self.alive, self.lives = False, 0
        self.paused_until_ms = 0
        self._steps_to_live: int | None = None
        self._channels: list[Channel] = []
        self._turn_ms, self._turn_number = _NEVER, 0
        self.waits = False
        """Whether a bounded wait of the product's (flush, a farewell) goes on: then the wire works at once."""

    @abstractmethod
    def begin(self) -> None:
        """Start from nothing."""

    @abstractmethod
    def turn(self) -> int:
        """One turn; in how many ms the next is wanted at the latest."""

    @abstractmethod
    def forget(self) -> None:
        """All memory is lost."""

    def stop(self) -> None:
        """SIGTERM: most kinds end at once."""
        self.kill()

    def start(self) -> None:
        """Begin a life."""
        self.alive, self.lives = True, self.lives + 1
        self.stage.note(self.name, "starts")
        self._guarded(self.begin)
        self.woken()

    def kill(self, *, note: str = "is killed") -> None:
        """Gone at once."""
        if not self.alive:
            return
        self.stage.note(self.name, note)
        self.alive, self._steps_to_live, self.paused_until_ms = False, None, 0
        for channel in self._channels:
            channel.cut(0.5)
        self._channels = []
        self.stage.broker.forget(self)
        self._turn_ms = _NEVER
        self.forget()

    def kill_within(self, steps: int) -> None:
        """Gone after so many more things that it does."""
        self._steps_to_live = steps

    def pause(self, duration_ms: int) -> None:
        """SIGSTOP, and SIGCONT so much later."""
        if not self.alive:
            return
        self.paused_until_ms = self.stage.now_ms + duration_ms
        self.stage.note(self.name, f"stands still for {duration_ms} ms")
        if self.stage.rng.random() < 0.5:
            for channel in self._channels:
                channel.held_until_ms = self.paused_until_ms
        self.stage.clockwork.at(self.paused_until_ms, self._resume)

    @property
    def paused(self) -> bool:
        """Whether it stands still now."""
        return self.stage.now_ms < self.paused_until_ms

    def step(self) -> None:
        """It does something that others can see; called by world.clients before each."""
        if self._steps_to_live is not None:
            self._steps_to_live -= 1
            if self._steps_to_live < 0:
                raise Killed

    def channel(self, delivery: timedelta) -> Channel:
        """A producer's connection of this process."""
        stage = self.stage
        channel = Channel(stage.broker, stage.clockwork, stage.weather, ms(delivery), self.woken)
        self._channels.append(channel)
        return channel

    def is_out(self, place: Place) -> bool:
        """Whether a partition is unavailable now."""
        return self.stage.broker.is_out(place)

    def woken(self) -> None:
        """Something came for it: it turns within some milliseconds."""
        self.turn_by(self.stage.now_ms + self.stage.wake_ms())

    def turn_by(self, when_ms: int) -> None:
        """Let it turn at this instant at the latest."""
        if not self.alive or when_ms >= self._turn_ms:
            return
        self._turn_ms = when_ms
        self._turn_number += 1
        number = self._turn_number
        self.stage.clockwork.at(when_ms, lambda: self._turn(number))

    def _turn(self, number: int) -> None:
        if number != self._turn_number or not self.alive or self.paused:
            return
        self._turn_ms = _NEVER
        wanted = self._guarded(self.turn)
        if self.alive and wanted is not None:
            self.turn_by(self.stage.now_ms + max(1, wanted))

    def _resume(self) -> None:
        if self.alive and not self.paused:
            self._turn_ms = _NEVER
            self.turn_by(self.stage.now_ms)

    def _guarded(self, act: Callable[[], T]) -> T | None:
        try:
            return act()
        except Killed:
            self.stage.saw("kill in the middle of a step")
            self.kill(note="is killed in the middle")
            return None
