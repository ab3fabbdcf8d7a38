"""A worker in the simulated world: the product's own WorkerCore, and a thin driver that does what its outputs say.

Made by world.run. What the driver does is what headrace.inference_worker.service does, but for the calls, which are
simulated (world.backend). Invariant: it decides nothing.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from headrace.bus.messages import Message, Place, Received, message_of
from headrace.bus.ports import BusError
from headrace.contracts.codec import decode, find_header
from headrace.contracts.commands import Buried, Run
from headrace.contracts.durations import ms
from headrace.contracts.ids import boot_id
from headrace.contracts.kept_text import TEXT_HEADER
from headrace.contracts.reports import Gauges
from headrace.contracts.topics import TopicKind
from headrace.inference_worker.protocol.core import WorkerCore
from headrace.inference_worker.protocol.inputs import (
    BackendSeen,
    CallEnded,
    EpochRead,
    GaugesSeen,
    Input,
    LaneFound,
    LaneRead,
    StopAsked,
    Work,
    Written,
)
from headrace.inference_worker.protocol.outputs import (
    Abort,
    AbortAll,
    FindLane,
    Finished,
    FollowLane,
    Output,
    ReadEpoch,
    SendAttempt,
    SendPing,
    SendResult,
    SendWorker,
    Start,
)
from headrace.inference_worker.registration import Identity, Registration
from headrace.inference_worker.timings import Timings
from tests.simulation.world.backend import Backend
from tests.simulation.world.calls import Ran
from tests.simulation.world.clients import SimBus, run_now
from tests.simulation.world.limits_kept import holds_too_much
from tests.simulation.world.process import Process
from tests.simulation.world.producing import Writing
from tests.simulation.world.reading import Cursors
from tests.simulation.world.stage import LANES, Stage
from tests.support.scheduler.pure import NAMES, POOL, place

_REPORTS, _OUTCOMES, _CHUNKS = timedelta(seconds=10), timedelta(seconds=30), timedelta(seconds=5)
_TURN_MS = 50
_BATCH = 100


class SimWorker(Process):
    """One worker. `fail_share`: how many of its calls fail. `cache_tokens`: told by its engine; None: it has no metrics."""

    def __init__(
        self, stage: Stage, name: str, *, limit: int, longest_ms: int, fail_share: float,
        drain_grace: timedelta, cache_tokens: int | None = None, pool: str = POOL,
    ) -> None:  # fmt: skip
        super().__init__(stage, name)
        self.pool = pool
        self.backend = Backend(stage, name, longest_ms=longest_ms, fail_share=fail_share)
        self._limit, self._timings = limit, Timings(drain_grace=drain_grace)
        self._cache_tokens = cache_tokens
        self._last_boot_ms = 0
        self._zombie = False
        self.stopping = False
        self._probed_ms = 0
        self.forget()

    def forget(self) -> None:
        """As Process.forget. Its calls break off."""
        self.backend.give_up("its worker died")
        self._core: WorkerCore | None = None
        self._inputs: list[Input] = []
        self._lane: tuple[str, Cursors] | None = None

    def begin(self) -> None:
        """As Process.begin."""
        self._core = WorkerCore(worker=self.name, limit=self._limit, timings=self._timings)
        self._reports, self._outcomes = Writing(self, _REPORTS), Writing(self, _OUTCOMES)
        self._chunks = Writing(self, _CHUNKS)
        identity = Identity(self.name, self.pool, LANES)
        self._registration = Registration(SimBus(self), NAMES, identity, self.clock)  # type: ignore[arg-type]
        self._zombie = self.stopping = self._buried = False

    def stop(self) -> None:
        """SIGTERM: drains."""
        if self.alive:
            self.stage.note(self.name, f"is told to stop, holding {self.backend.under_way} calls")
            self.stage.saw("drain under load", bool(self.backend.under_way))
            self.stage.saw("drain")
            self.stopping = True
            self._tell(StopAsked())

    def pause(self, duration_ms: int) -> None:
        """As Process.pause. Whether what it runs may be run again is for the log to say."""
        super().pause(duration_ms)
        lapses = duration_ms >= ms(self._timings.lapse_after)
        self._zombie = self._zombie or lapses

    def turn(self) -> int:
        """As Process.turn: one step of the core, and what it says."""
        core = self._core
        assert core is not None
        self._follow_lane()
        self._follow_calls()
        self._probe()
        inputs, self._inputs = self._inputs, []
        outputs = core.step(inputs, self.clock.now())
        if core.boot is not None:
            self.stage.broken += holds_too_much(self.name, core.boot, self._limit)
        for output in outputs:
            self.step()
            if isinstance(output, Finished):
                self.stage.saw("worker drained")
                self.backend.abandon()
                self.kill(note="has drained and is gone")
                return _TURN_MS
            self._ACTS[type(output)](self, output)
            if not self.alive:
                return _TURN_MS
        return min(_TURN_MS, max(1, self.backend.next_ms - self.stage.now_ms))

    def _tell(self, item: Input) -> None:
        if self.alive:
            self._inputs.append(item)
            self.woken()

    def _of_this_life(self, core: WorkerCore | None, item: Input) -> None:
        if core is self._core:
            self._tell(item)

    def _follow_lane(self) -> None:
        if self._lane is None:
            return
        boot, cursors = self._lane
        records = cursors.collect(_BATCH)
        if records:
            commands = tuple(self._command(record) for record in records)
            for command in commands:
                if isinstance(command, Buried) and command.boot == boot:
                    self.stage.saw("buried zombie", self._zombie)
                    self.stage.saw("buried")
                    self._zombie, self._buried = False, True
            self._inputs.append(LaneRead(boot, records[-1].offset + 1, commands))

    @staticmethod
    def _command(record: Received) -> Any:
        command = decode(TopicKind.WORK, record.header)
        text = find_header(record.headers, TEXT_HEADER) or b""
        return Work(command, record.value or b"", text=text) if isinstance(command, Run) else command

    def _place(self, kind: TopicKind, partition: int = 0) -> Place:
        return Place(NAMES.of(kind, pool=self.pool), partition)

    def _write(self, writing: Writing, message: Message, token: object) -> None:
        core = self._core
        writing.send(
            message, lambda acknowledged: self._of_this_life(core, Written(token, acknowledged=acknowledged))
        )

    def _send_worker(self, output: SendWorker) -> None:
        self._write(self._reports, message_of(self._place(TopicKind.WORKERS), output.record), output.token)

    def _send_ping(self, output: SendPing) -> None:
        self._write(
            self._reports, message_of(self._place(TopicKind.WORK, output.lane), output.record), output.token
        )

    def _send_result(self, output: SendResult) -> None:
        message = message_of(place(TopicKind.RESULTS, output.record.partition), output.record, output.body)
        self._write(self._outcomes, message, output.token)

    def _send_attempt(self, output: SendAttempt) -> None:
        message = message_of(self._place(TopicKind.ATTEMPTS, output.partition), output.record, output.text)
        core, attempt = self._core, output.record.attempt

        def told(acknowledged: bool) -> None:
            if core is self._core and acknowledged:
                self.backend.written(attempt)
            self._of_this_life(core, Written(output.token, acknowledged=acknowledged))

        self._outcomes.send(message, told)

    def _find_lane(self, _: FindLane) -> None:
        self._lane = None
        self._look(lambda: run_now(self._registration.find_lane(self._timings.silent_after)), self._found)

    def _found(self, found: tuple[int, int]) -> Input:
        self._last_boot_ms = max(self.clock.now().wall_ms, self._last_boot_ms + 1)
        boot = boot_id(self._last_boot_ms, self.stage.rng.randbytes(10))
        self.stage.note(self.name, f"registers as {boot[8:16]} in lane {found[0]} from {found[1]}")
        return LaneFound(boot, *found)

    def _read_epoch(self, output: ReadEpoch) -> None:
        self._look(
            lambda: run_now(self._registration.newest_epoch()), lambda epoch: EpochRead(output.boot, epoch)
        )

    def _look(self, look: Callable[[], Any], told: Callable[[Any], Input]) -> None:
        """Looks at the logs some milliseconds later, and again until they answer."""
        core, stage = self._core, self.stage

        def try_it() -> None:
            if core is not self._core or core is None:
                return
            if self.paused:
                stage.clockwork.at(self.paused_until_ms, try_it)
                return
            try:
                found = look()
            except BusError:
                stage.clockwork.after(ms(self._timings.look_again_after), try_it)
            else:
                self._tell(told(found))

        stage.clockwork.after(stage.weather.delay_ms(), try_it)

    def _follow(self, output: FollowLane) -> None:
        cursors = Cursors(self)
        cursors.assign({self._place(TopicKind.WORK, output.lane): output.position})
        self._lane = (output.boot, cursors)

    def _start(self, output: Start) -> None:
        self.backend.start(output.work, zombie=self._zombie)

    def _abort(self, output: Abort) -> None:
        boot = None if self._core is None else self._core.boot
        holding = None if boot is None else boot.holdings.get(output.attempt)
        ended = self.backend.abort(output.attempt, None if holding is None else holding.stop)
        if ended is not None:
            self._tell(ended)

    def _abort_all(self, _: AbortAll) -> None:
        """Who was buried must have been dead by the log; who gives up by itself says so by its next boot."""
        if self._buried:
            self.backend.bury()
        else:
            self.backend.give_up("its boot is over")
        self._zombie = self._buried = False

    def _follow_calls(self) -> None:
        for news in self.backend.goes_on():
            if isinstance(news, Message):
                self._chunks.send(news, lambda _: None)
            elif isinstance(news, CallEnded):
                self._tell(news)
            else:
                self._inputs.append(news)

    def _probe(self) -> None:
        if self.stage.now_ms >= self._probed_ms + ms(self._timings.probe_every):
            self._probed_ms = self.stage.now_ms
            self._inputs.append(BackendSeen(self.stage.now_ms >= self.backend.down_until_ms))
            if self._cache_tokens is not None:
                gauges = Gauges(
                    sample=0, running=self.backend.under_way, waiting=0, kv_tokens=self._cache_tokens
                )
                self._inputs.append(GaugesSeen(gauges))

    @property
    def runs(self) -> list[Ran]:
        """What its backend really ran."""
        return self.backend.ran

    @property
    def core(self) -> WorkerCore | None:
        """Its protocol's core."""
        return self._core

    _ACTS: dict[type[Output], Callable[..., None]] = {  # noqa: RUF012 - a table, never changed
        FindLane: _find_lane,
        ReadEpoch: _read_epoch,
        FollowLane: _follow,
        SendWorker: _send_worker,
        SendPing: _send_ping,
        SendResult: _send_result,
        SendAttempt: _send_attempt,
        Start: _start,
        Abort: _abort,
        AbortAll: _abort_all,
    }
