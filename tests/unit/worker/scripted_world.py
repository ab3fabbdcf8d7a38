"""A world around the worker's protocol core in virtual time: it confirms writes, or not, as the test says."""

from collections.abc import Callable, Iterable
from datetime import timedelta

from headrace.contracts.clock import Now
from headrace.contracts.commands import Cancel, CancelReason, Command, Run
from headrace.contracts.ids import AttemptId
from headrace.contracts.outcomes import AttemptRecord, ResultRecord
from headrace.contracts.reports import Gone, Report
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin, Payload
from headrace.inference_worker.outcome import Outcome
from headrace.inference_worker.protocol.core import WorkerCore
from headrace.inference_worker.protocol.inputs import (
    CallEnded,
    EpochRead,
    Input,
    LaneFound,
    LaneRead,
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
from headrace.inference_worker.timings import Timings

WALL_MS = 1_700_000_000_000
TURN_MS = 50


def run_of(number: int, *, boot: str, epoch: int = 1, finish_by_ms: int | None = None, trial: int = 0) -> Run:
    request = RequestRecord(
        id=f"req_{number}", tenant="acme", pool="small", tier="standard", partition=3, model="m",
        route="/v1/chat/completions", accepted_ms=WALL_MS, payload=Payload(size=2), gateway=1,
        finish_by_ms=finish_by_ms,
    )  # fmt: skip
    return Run(
        epoch=epoch, boot=boot, attempt=AttemptId(epoch, number), attempts=1,
        origin=Origin("requests.small.standard", 3, number), request=request, charge=7, trial=trial,
    )  # fmt: skip


class World:
    """The lane, the logs and the clock. `drops` decides which writes are lost; `wrote` keeps those acknowledged."""

    def __init__(self, *, limit: int = 2, epoch: int = 1) -> None:
        self.core = WorkerCore(worker="w1", limit=limit, timings=Timings())
        self.boot_ms, self.boots, self.position, self.epoch = 1_000_000, 0, 10, epoch
        self.drops: Callable[[Output], bool] = lambda _: False
        self.pings_return = True
        self.done: list[Output] = []
        self.wrote: list[Report | Gone | ResultRecord | AttemptRecord] = []
        self._inputs: list[Input] = []

    @property
    def now(self) -> Now:
        return Now(wall_ms=WALL_MS + self.boot_ms, boot_ms=self.boot_ms)

    @property
    def boot(self) -> str:
        return f"{self.boots:032x}"

    def give(self, *inputs: Input) -> None:
        self._inputs.extend(inputs)

    def send(self, *commands: Work | Command) -> None:
        """Records of the owner in the lane."""
        self.position += len(commands)
        self.give(LaneRead(self.boot, self.position, commands))

    def run(
        self, number: int, *, epoch: int = 1, finish_by_ms: int | None = None, trial: int = 0
    ) -> AttemptId:
        run = run_of(number, boot=self.boot, epoch=epoch, finish_by_ms=finish_by_ms, trial=trial)
        self.send(Work(run, b"{}"))
        return run.attempt

    def cancel(self, attempt: AttemptId, reason: CancelReason) -> None:
        self.send(Cancel(epoch=1, boot=self.boot, attempt=attempt, id="req", reason=reason))

    def end(self, attempt: AttemptId, outcome: Outcome) -> None:
        self.give(CallEnded(attempt, outcome))

    def turn(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.boot_ms += TURN_MS
            inputs, self._inputs = self._inputs, []
            for output in self.core.step(inputs, self.now):
                self.done.append(output)
                self._answer(output)

    def pass_time(self, duration: timedelta) -> None:
        self.turn(duration // timedelta(milliseconds=TURN_MS))

    def serve(self) -> "World":
        """Registered and reading the lane."""
        self.turn(6)
        assert self.core.phase == "serving"
        return self

    def seen(self, kind: type[Output]) -> list[Output]:
        return [output for output in self.done if isinstance(output, kind)]

    def started(self) -> list[AttemptId]:
        return [output.work.run.attempt for output in self.done if isinstance(output, Start)]

    def aborted(self) -> list[AttemptId]:
        return [output.attempt for output in self.done if isinstance(output, Abort)]

    def records(self, kind: type) -> list:  # type: ignore[type-arg]
        return [record for record in self.wrote if isinstance(record, kind)]

    @property
    def report(self) -> Report:
        found: list[Report] = self.records(Report)
        return found[-1]

    def held(self) -> set[AttemptId]:
        return {held.attempt for held in self.report.held}

    def abort_all_seen(self) -> bool:
        return bool(self.seen(AbortAll))

    def finished(self) -> bool:
        return bool(self.seen(Finished))

    def _answer(self, output: Output) -> None:
        if isinstance(output, FindLane):
            self.boots += 1
            self.give(LaneFound(self.boot, lane=4, position=self.position))
        elif isinstance(output, ReadEpoch):
            self.give(EpochRead(output.boot, self.epoch))
        elif isinstance(output, SendWorker | SendPing | SendResult | SendAttempt):
            self._write(output)

    def _write(self, output: SendWorker | SendPing | SendResult | SendAttempt) -> None:
        lost = self.drops(output)
        self.give(Written(output.token, acknowledged=not lost))
        if lost:
            return
        if isinstance(output, SendPing):
            if self.pings_return:
                self.send(output.record)
        else:
            self.wrote.append(output.record)


def kinds(outputs: Iterable[Output]) -> list[type]:
    wanted = (FindLane, ReadEpoch, FollowLane, SendResult, SendAttempt)
    return [type(output) for output in outputs if isinstance(output, wanted)]


S = timedelta(seconds=1)
ANSWER = Outcome(http_status=200, body=b'{"answer":1}')


def loses_workers(output: Output) -> bool:
    return isinstance(output, SendWorker)
