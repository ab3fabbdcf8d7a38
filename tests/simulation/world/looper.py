"""A worker that registers and dies, again and again: the world's only process that never gets well. Made by world.run."""

from datetime import timedelta

from headrace.bus.messages import message_of
from headrace.contracts.ids import boot_id
from headrace.contracts.reports import Report
from headrace.contracts.topics import TopicKind
from tests.simulation.world.process import Process
from tests.simulation.world.producing import Writing
from tests.support.scheduler.pure import place

_EVERY_MS = 1_700


class Looper(Process):
    """One report of each boot, and then nothing."""

    def begin(self) -> None:
        """As Process.begin."""
        self._writing = Writing(self, timedelta(seconds=10))

    def turn(self) -> int:
        """As Process.turn: another life."""
        now, lane = self.clock.now(), self.stage.broker.logs[place(TopicKind.WORK, 0)]
        boot = boot_id(now.wall_ms, self.stage.rng.randbytes(10))
        report = Report(worker=self.name, boot=boot, epoch=0, lane=0, position=lane.end, limit=2)
        self._writing.send(message_of(place(TopicKind.WORKERS), report), lambda _: None)
        self.stage.saw("crash loop")
        return _EVERY_MS

    def woken(self) -> None:
        """Nothing concerns it."""
        if self._turn_ms > self.stage.now_ms + _EVERY_MS:
            super().woken()

    def forget(self) -> None:
        """As Process.forget."""
