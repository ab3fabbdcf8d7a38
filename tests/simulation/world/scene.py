"""A world without chance, for written schedules: everything goes well and at once, but for what the schedule does to it.

Used by tests.simulation.schedules. Invariant: the same schedule is the same history, whatever its steps are called.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from headrace.bus.messages import Message, message_of
from headrace.contracts.clock import Now
from headrace.contracts.codec import decode
from headrace.contracts.failures import FailureKind
from headrace.contracts.topics import TopicKind
from headrace.scheduler.claiming import Claiming
from tests.simulation.world.callers import Asked
from tests.simulation.world.calls import Ran
from tests.simulation.world.deliverers import SimDeliverer
from tests.simulation.world.judge import judge
from tests.simulation.world.process import Process
from tests.simulation.world.run import Cast, World
from tests.simulation.world.schedulers import SimScheduler
from tests.simulation.world.workers import SimWorker
from tests.support.scheduler.pure import place

_REST_WITHIN_MS = 90_000


class NeverHappenedError(AssertionError):
    """What the schedule waited for didn't come; the message says what it was."""


class Scene(World):
    """One schedule's world. Nobody is alive yet."""

    def __init__(self, cast: Cast | None = None) -> None:
        super().__init__(1, cast or Cast())
        self.faults_end_ms = 0
        self.stage.weather.faulty, self.stage.weather.calm = False, True

    def begin(self, *absent: Process) -> SimScheduler:
        """Starts everybody else; the owner, past its gate."""
        for process in self.processes():
            if process not in absent:
                process.start()
        self.until(
            lambda: self.owner() is not None and self.all_serve(*absent), "an owner, and workers that serve"
        )
        return self.owning()

    def all_serve(self, *absent: Process) -> bool:
        """Whether all workers do."""
        cores = [worker.core for worker in self.workers if worker not in absent]
        return all(core is not None and core.phase == "serving" for core in cores)

    def owning(self) -> SimScheduler:
        """The owner's process."""
        core = self.owner()
        return next(scheduler for scheduler in self.schedulers if scheduler.core is core)

    def owns_for_longer(self, duration_ms: int) -> None:
        """To the owner it is so much later than it was, as far as what it keeps grows old by it."""
        core = self.owner()
        assert core is not None
        claimed = core.state.claimed
        core.state.claimed = Now(claimed.wall_ms, claimed.boot_ms - duration_ms)

    def claiming(self) -> list[SimScheduler]:
        """Those who claim now."""
        return [s for s in self.schedulers if s.loop is not None and isinstance(s.loop.doing, Claiming)]

    def has_its_barrier(self, scheduler: SimScheduler) -> bool:
        """Whether one that claims knows where `state` ends."""
        assert scheduler.loop is not None
        return isinstance(scheduler.loop.doing, Claiming) and bool(scheduler.loop.doing._proved)

    def standby(self) -> SimScheduler:
        """A replica that isn't the owner."""
        return next(scheduler for scheduler in self.schedulers if scheduler.core is None)

    def holding(self, kind: TopicKind) -> list[SimDeliverer]:
        """Members of result-delivery that have read something of a topic and haven't committed it."""
        topic = place(kind).topic
        return [
            member
            for member in self.deliverers
            if member.delivery is not None
            and any(each.place.topic == topic for each in member.delivery.reading.share.held)
        ]

    def learns_late(self, member: SimDeliverer, duration_ms: int) -> None:
        """A member of result-delivery doesn't learn of changes in its group."""
        assert member.delivery is not None
        reader: Any = member.delivery.reading._reader
        reader._notices_ms = self.stage.now_ms + duration_ms

    def run_for(self, duration_ms: int) -> None:
        """Let time go by."""
        end_ms = self.stage.now_ms + duration_ms
        while self.stage.clockwork.next_ms <= end_ms:
            self.stage.clockwork.turn()
        self.stage.clockwork.now_ms = end_ms

    def until(self, happened: Callable[[], bool], what: str, within_ms: int = 30_000) -> None:
        """Let time go by until this has happened. Raises NeverHappenedError."""
        end_ms = self.stage.now_ms + within_ms
        while not happened():
            if self.stage.clockwork.next_ms > end_ms:
                raise NeverHappenedError(what)
            self.stage.clockwork.turn()

    def submit(self, *, stream: bool = False) -> Asked:
        """A request that is accepted."""
        asked = self.callers.submit_now(stream=stream)
        self.until(lambda: asked.accepted_ms is not None, "an accepted request")
        return asked

    def runs_of(self, asked: Asked) -> list[Ran]:
        """What ran of a request."""
        return [run for worker in self.workers for run in worker.runs if run.request == asked.record.id]

    def until_runs(self, asked: Asked, times: int = 1) -> None:
        """Let time go by until a backend has it."""
        self.until(lambda: len(self.runs_of(asked)) >= times, "a run of a request")

    def running(self, *, last_ms: int, fail_as: FailureKind | None = None) -> Asked:
        """Begins, and lets a backend have a request: for so long, and as any after it, until `calls` says otherwise."""
        self.begin()
        self.calls(last_ms=last_ms, fail_as=fail_as)
        asked = self.submit()
        self.until_runs(asked)
        return asked

    def out(self, kind: TopicKind, duration_ms: int, partition: int = 0) -> None:
        """A partition isn't available."""
        self.stage.broker.logs[place(kind, partition)].out_until_ms = self.stage.now_ms + duration_ms

    def late(self, process: Process, kind: TopicKind, duration_ms: int) -> None:
        """A process doesn't see what is new in a log."""
        self.stage.lags[process.name, place(kind).topic] = self.stage.now_ms + duration_ms

    def answer_late(self, process: Process, duration_ms: int) -> None:
        """Answers to what a process asks of the brokers come late."""
        self.stage.lags[process.name, "answers"] = self.stage.now_ms + duration_ms

    def hold(self, process: Process, duration_ms: int) -> None:
        """Nothing that a process sends reaches the broker."""
        for channel in process._channels:
            channel.held_until_ms = self.stage.now_ms + duration_ms

    def lose_next(self, kind: TopicKind) -> None:
        """The next message to a topic never arrives."""
        self.stage.weather.lose_next.append(place(kind).topic)

    def hold_logs(self, scheduler: SimScheduler, duration_ms: int) -> None:
        """Nothing that a scheduler sends reaches any log but `state`."""
        assert scheduler.loop is not None
        assert isinstance(scheduler.loop.doing, Claiming)
        producer: Any = scheduler.loop.doing.warm.producer
        producer._channel.held_until_ms = self.stage.now_ms + duration_ms

    def report_of_an_older_boot(self, worker: SimWorker) -> None:
        """The one report of a boot that its worker had before, so late that its next boot serves already."""
        entries = self.stage.broker.logs[place(TopicKind.WORKERS)].entries
        last = next(e.received for e in reversed(entries) if e.by == worker.name and e.received is not None)
        report = decode(TopicKind.WORKERS, last.header)
        older = msgspec.structs.replace(report, boot="0" * 32, epoch=0, held=())
        self.stage.broker.append(message_of(place(TopicKind.WORKERS), older), worker.name)

    def say_again(self, kind: TopicKind, offset: int, partition: int = 0) -> None:
        """A record that stands in a log comes once more, late."""
        received = self.stage.broker.logs[place(kind, partition)].entries[offset].received
        assert received is not None
        message = Message(received.topic, received.partition, received.value, received.headers, received.key)
        self.stage.broker.append(message, "a late echo")

    def calls(self, *, last_ms: int | None = None, fail_as: FailureKind | None = None) -> None:
        """How backends' calls go from now on."""
        for worker in self.workers:
            worker.backend.lasts_ms, worker.backend.fails_as = last_ms, fail_as

    def worker_of(self, asked: Asked) -> SimWorker:
        """Who has run a request, while only one has."""
        return next(
            worker for worker in self.workers if any(r.request == asked.record.id for r in worker.runs)
        )

    def settled(self) -> list[str]:
        """Let all come to rest; what is wrong then."""
        end_ms = self.stage.now_ms + _REST_WITHIN_MS
        while not self.at_rest() and self.stage.now_ms < end_ms:
            self.run_for(250)
        return judge(self)
