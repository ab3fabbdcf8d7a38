"""The worker's loop: feeds the protocol core with what happened, and does what it says. Built by wiring.

Invariant: it decides nothing; every write, call and read runs in a task of its own and comes back as an input.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.bus.messages import Message, Place, message_of
from headrace.bus.ports import AsyncProducer, BusError, TooLargeError
from headrace.contracts.ids import AttemptId, boot_id
from headrace.contracts.reports import Allowed
from headrace.contracts.topics import TopicKind, TopicNames
from headrace.inference_worker.attempt_call import AttemptCall
from headrace.inference_worker.attempt_runner import AttemptRunner
from headrace.inference_worker.lane import Lane
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.probing import Probing
from headrace.inference_worker.protocol.core import Phase, WorkerCore
from headrace.inference_worker.protocol.inputs import (
    CallEnded,
    EpochRead,
    Input,
    LaneFound,
    LimitsHeard,
    Progress,
    StopAsked,
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
from headrace.inference_worker.registration import Registration
from headrace.inference_worker.timings import Timings
from headrace.inference_worker.worker_metrics import WorkerMetrics
from headrace.runtime.clock import Clock
from headrace.runtime.health import Component
from headrace.runtime.logging import get_logger
from headrace.runtime.outages import Outages

T = TypeVar("T")
_REPORTS = 2.5
"""Who lives reports in so many periods."""


@dataclass(frozen=True, slots=True)
class Logs:
    """Where the worker writes: reports and pings by one producer, results and attempts by another, so neither waits."""

    names: TopicNames
    pool: str
    reports: AsyncProducer
    outcomes: AsyncProducer

    def place(self, kind: TopicKind, partition: int) -> Place:
        """A partition of a topic of this pool."""
        return Place(self.names.of(kind, pool=self.pool), partition)


@dataclass(slots=True)
class _Running:
    """One attempt's task, and its call once that has begun."""

    task: asyncio.Task[Outcome]
    call: AttemptCall | None = None
    told_tokens: int = 0


class WorkerService:
    """One worker. `run` until its stop event is set and all is said and done."""

    def __init__(
        self, core: WorkerCore, logs: Logs, *, registration: Registration, make_lane: Callable[..., Lane],
        runner: AttemptRunner, probing: Probing, clock: Clock, timings: Timings, readiness: Component,
        metrics: WorkerMetrics,
    ) -> None:  # fmt: skip
        self._core, self._logs, self._registration = core, logs, registration
        self._make_lane, self._runner, self._probing = make_lane, runner, probing
        self._clock, self._timings, self._readiness, self._metrics = clock, timings, readiness, metrics
        self._inputs, self._wake = list[Input](), asyncio.Event()
        self._running: dict[AttemptId, _Running] = {}
        self._under_way = set[asyncio.Task[Any]]()
        self._lane: asyncio.Task[None] | None = None
        self._last_boot_ms, self._own_boots = 0, set[str]()
        self._log, self._outages = get_logger("worker"), Outages(get_logger("worker"))

    async def run(self, stop: asyncio.Event) -> None:
        """Serve, drain, return. Raises what it can't live with."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._spawn(self._probing.health(self._tell))
                self._spawn(self._probing.gauges(self._tell))
                self._spawn(self._await_stop(stop))
                while not self._turn():
                    await self._sleep()
                for task in self._under_way:
                    task.cancel()
        finally:
            self._readiness.not_ready("stopped")

    def _turn(self) -> bool:
        """One step of the core; whether all is done."""
        self._wake.clear()
        inputs, self._inputs = self._progress() + self._inputs, []
        outputs = self._core.step(inputs, self._clock.now())
        for output in outputs:
            if isinstance(output, Finished):
                return True
            self._ACTS[type(output)](self, output)
        self._tell_readiness()
        return False

    async def _sleep(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timings.turn.total_seconds()):
                await self._wake.wait()

    def _tell(self, item: Input) -> None:
        self._inputs.append(item)
        self._wake.set()

    def _tell_readiness(self) -> None:
        if self._core.ready:
            self._readiness.ready()
        elif self._core.drained:
            self._readiness.not_ready("drained: `headrace workers undrain` puts it back into service")
        elif self._core.phase is Phase.SERVING:
            self._readiness.not_ready("the backend doesn't answer")
        else:
            self._readiness.not_ready("not registered with its pool")

    def _progress(self) -> list[Input]:
        news = list[Input]()
        for attempt, running in self._running.items():
            if running.call is not None and running.call.tokens != running.told_tokens:
                running.told_tokens = running.call.tokens
                news.append(Progress(attempt, running.told_tokens))
        return news

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self._tasks.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _await_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._tell(StopAsked())

    async def _write(self, producer: AsyncProducer, message: Message, token: object) -> None:
        try:
            await producer.send(message)
        except TooLargeError:
            self._tell(Written(token, acknowledged=False, too_large=True))
        except BusError as error:
            self._outages.say(message.topic, "writes are not confirmed", str(error))
            self._tell(Written(token, acknowledged=False))
        else:
            self._outages.over(message.topic)
            self._tell(Written(token, acknowledged=True))

    def _send_worker(self, output: SendWorker) -> None:
        place = self._logs.place(TopicKind.WORKERS, 0)
        self._spawn(self._write(self._logs.reports, message_of(place, output.record), output.token))

    def _send_ping(self, output: SendPing) -> None:
        place = self._registration.lane(output.lane)
        self._spawn(self._write(self._logs.reports, message_of(place, output.record), output.token))

    def _send_result(self, output: SendResult) -> None:
        place = self._logs.place(TopicKind.RESULTS, output.record.partition)
        message = message_of(place, output.record, output.body, trace=output.trace)
        self._spawn(self._write(self._logs.outcomes, message, output.token))

    def _send_attempt(self, output: SendAttempt) -> None:
        place = self._logs.place(TopicKind.ATTEMPTS, output.partition)
        message = message_of(place, output.record, output.text, trace=output.trace)
        self._spawn(self._write(self._logs.outcomes, message, output.token))

    def _find_lane(self, _: FindLane) -> None:
        if self._lane is not None:
            self._lane.cancel()
            self._lane = None
        self._spawn(self._until_found())

    async def _until_found(self) -> None:
        lane, position = await self._patiently(self._look_for_a_lane)
        # greater than any boot before it, also when the wall clock was turned back
        self._last_boot_ms = max(self._clock.now().wall_ms, self._last_boot_ms + 1)
        boot = boot_id(self._last_boot_ms, os.urandom(10))
        self._own_boots.add(boot)
        self._metrics.registrations.inc()
        self._log.info("registering", boot=boot, lane=lane)
        self._tell(LaneFound(boot, lane, position))

    async def _look_for_a_lane(self) -> tuple[int, int]:
        timings = self._timings
        within = _REPORTS * timings.report_every
        await self._registration.refuse_a_twin(timings.silent_after, own=self._own_boots, within=within)
        return await self._registration.find_lane(timings.silent_after)

    def _read_epoch(self, output: ReadEpoch) -> None:
        self._spawn(self._until_epoch(output.boot))

    async def _until_epoch(self, boot: str) -> None:
        epoch = await self._patiently(self._registration.newest_epoch)
        self._log.info("serving", boot=boot, epoch=epoch)
        self._tell(EpochRead(boot, epoch))

    async def _patiently(self, look: Callable[[], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401
        while True:
            try:
                found = await look()
            except BusError as error:
                self._outages.say("the logs", "can't be looked at yet", str(error))
                await asyncio.sleep(self._timings.look_again_after.total_seconds())
            else:
                self._outages.over("the logs")
                return found

    def _follow_lane(self, output: FollowLane) -> None:
        lane = self._make_lane(told=self._tell)
        self._lane = self._spawn(lane.follow(output, self._registration.lane(output.lane)))

    def _start(self, output: Start) -> None:
        attempt = output.work.run.attempt

        def begun(call: AttemptCall) -> None:
            running.call = call

        def heard(allowed: Allowed) -> None:
            self._tell(LimitsHeard(attempt, allowed))

        running = _Running(self._spawn(self._runner.run(output.work, begun, heard)))
        self._running[attempt] = running
        running.task.add_done_callback(lambda task: self._call_ended(attempt, task))

    def _call_ended(self, attempt: AttemptId, task: asyncio.Task[Outcome]) -> None:
        if attempt in self._running and self._running[attempt].task is task:
            del self._running[attempt]
            # a task cancelled before its first step has no outcome of its own
            outcome = Outcome(aborted=True, started=False) if task.cancelled() else task.result()
            self._tell(CallEnded(attempt, outcome))

    def _abort(self, output: Abort) -> None:
        if running := self._running.get(output.attempt):
            running.task.cancel()

    def _abort_all(self, _: AbortAll) -> None:
        running, self._running = self._running, {}
        for one in running.values():
            one.task.cancel()

    _ACTS: dict[type[Output], Callable[..., None]] = {  # noqa: RUF012 - a table, never changed
        FindLane: _find_lane,
        ReadEpoch: _read_epoch,
        FollowLane: _follow_lane,
        SendWorker: _send_worker,
        SendPing: _send_ping,
        SendResult: _send_result,
        SendAttempt: _send_attempt,
        Start: _start,
        Abort: _abort,
        AbortAll: _abort_all,
    }
