"""A scheduler replica in the simulated world: the product's own PoolLoop on a simulated bus.

Made by world.run. Invariant: nothing of the protocol is here; what is watched here is only counted and noted.
"""

from collections.abc import Sequence
from datetime import timedelta

from headrace.bus.messages import Message
from headrace.contracts.observations import QueueState
from headrace.contracts.topics import TopicKind
from headrace.runtime.health import Component, ComponentState
from headrace.scheduler.claiming import Claiming
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.core.step import Fleet, Notice, Outputs, Send
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.owning import Owning
from headrace.scheduler.pool_loop import PoolLoop
from headrace.scheduler.ports import Standing
from headrace.scheduler.timings import Timings
from tests.simulation.world.clients import SimBus
from tests.simulation.world.limits_kept import released_too_much
from tests.simulation.world.process import Process
from tests.simulation.world.reading import SimLoopReader
from tests.simulation.world.stage import Stage
from tests.support.scheduler.pure import NAMES, POOL, place

_NO_WAIT = timedelta()
_STANDBY_MS, _CLAIMING_MS, _OWNER_MS = 150, 25, 20
_FAREWELL_MS = 2_000
_BACK_OFF_MOST = timedelta(seconds=8)
"""Takeovers that fail again and again are what a run is full of: a minute's back-off would only make it longer."""


class Telling:
    """As ports.Watcher and ports.RunTracing: counts and notes."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage, self._name = stage, name

    def stepped(self, pool: str, outputs: Outputs, states: Sequence[QueueState], fleet: Fleet) -> None:  # noqa: ARG002
        """As Watcher.stepped."""
        for what, count in outputs.counts.items():
            self._stage.saw(what, count)
        self._stage.saw("paused partition", bool(outputs.paused))
        texts = [run for run in outputs.read_again if run.place.topic == place(TopicKind.ATTEMPTS).topic]
        self._stage.saw("text read again", len(texts))
        for notice in outputs.notices:
            self.noticed(notice)

    def stands(self, pool: str, standing: Standing) -> None:
        """As Watcher.stands."""

    def noticed(self, notice: Notice) -> None:
        """As Watcher.noticed."""
        fields = ", ".join(f"{name}={value}" for name, value in notice.fields.items() if name != "pool")
        self._stage.note(self._name, f"{notice.event} ({fields})" if fields else notice.event)

    def took_over(self, pool: str) -> None:  # noqa: ARG002
        """As Watcher.took_over."""
        self._stage.saw("takeover")

    def continued(self, send: Send) -> Message:
        """As RunTracing.continued."""
        return send.message


class SimScheduler(Process):
    """One replica."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        replicas: tuple[str, ...],
        window: Window,
        spill: SpillBounds | None = None,
        pool: str = POOL,
    ) -> None:
        super().__init__(stage, name)
        self._setting = Setting(
            pool=pool, owner=name, replicas=replicas, policy=stage.policy, names=NAMES,
            timings=Timings(back_off_most=_BACK_OFF_MOST), window=window, random=stage.rng.random,
            spill=spill,
        )  # fmt: skip
        self.loop: PoolLoop | None = None
        self._open = self._late = False
        self._leaves_by_ms: int | None = None

    @property
    def core(self) -> PoolCore | None:
        """The core, while it owns the pool or believes so."""
        doing = None if self.loop is None else self.loop.doing
        return doing.core if isinstance(doing, Owning) else None

    def begin(self) -> None:
        """As Process.begin."""
        telling = Telling(self.stage, self.name)
        self.loop = PoolLoop(
            self._setting, SimBus(self), clock=self.clock, watcher=telling, tracing=telling,
            component=Component(ComponentState("pool"), self.clock),
        )  # fmt: skip
        self._leaves_by_ms = None

    def turn(self) -> int:
        """As Process.turn."""
        assert self.loop is not None
        gone = self._leaves_by_ms is not None and self.loop.leave()
        if gone or self.stage.now_ms >= (self._leaves_by_ms or 10**12):
            self.loop.close(drop=False)
            self.kill(note="has stopped")
            return _STANDBY_MS
        self.loop.turn(_NO_WAIT)
        if self.loop.stopped is not None:
            self.stage.broken.append(f"{self.name} stopped for good: {self.loop.stopped}")
            self.kill()
            return _STANDBY_MS
        doing = self.loop.doing
        if isinstance(doing, Owning):
            self._look(doing)
            return max(_OWNER_MS, doing._wake_ms - self.clock.now().boot_ms)
        return _CLAIMING_MS if isinstance(doing, Claiming) else _STANDBY_MS

    def stop(self) -> None:
        """SIGTERM: releases the pool."""
        if not self.alive or self.loop is None:
            return
        self.stage.note(self.name, "stops cleanly")
        if self.core is not None:
            self.stage.saw("clean stop of an owner")
        self._leaves_by_ms = self.stage.now_ms + _FAREWELL_MS

    def forget(self) -> None:
        """As Process.forget."""
        self.loop = None

    def _look(self, owning: Owning) -> None:
        """Count what was met; see that no more was released than may be held."""
        state, reader = owning.core.state, owning._warm.reader
        self.stage.broken += released_too_much(state)
        self.stage.saw("paced", bool(state.queue.frozen.paced))
        self.stage.saw("cache full", any(limits.kept_back for limits in state.limits.values()))
        if not state.open:
            self._late = isinstance(reader, SimLoopReader) and (self._late or reader.late)
        elif not self._open:
            self.stage.saw("takeover with work in flight", bool(len(state.held)))
            self.stage.saw("lagging reader at a takeover", self._late)
            self._late = False
        self._open = state.open
