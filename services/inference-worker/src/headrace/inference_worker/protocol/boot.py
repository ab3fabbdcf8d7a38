"""One boot of a worker: what it obeys, holds and reports between two registrations. Driven by the protocol core.

Invariant: a command of an epoch older than the greatest seen is dropped; an attempt id that was seen is never run again;
a report shows position, epoch and holdings of one and the same moment.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from headrace.contracts.clock import Now
from headrace.contracts.commands import Buried, Cancel, Command, Drain, Fence, Ping, Undrain
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.reports import MOST_RAN, Gauges, PerMinute, Report
from headrace.inference_worker.decisions.settle import StopReason
from headrace.inference_worker.outcome import Outcome, unstarted
from headrace.inference_worker.protocol.allowances import Allowances
from headrace.inference_worker.protocol.holdings import Holdings, Stage
from headrace.inference_worker.protocol.inputs import (
    CallEnded,
    LaneFound,
    LaneRead,
    LimitsHeard,
    Progress,
    Work,
)
from headrace.inference_worker.protocol.lease import Lease, Pings, Trust
from headrace.inference_worker.protocol.outputs import Abort, Output, Start
from headrace.inference_worker.timings import Timings

_REMEMBERED = 50_000
_OUTAGES = frozenset({FailureKind.BACKEND_UNAVAILABLE, FailureKind.ENGINE_DIED})


class Boot:
    """State of one boot. `buried`: the owner has declared it dead; `leaving`: its process ends, which no command undoes.

    `healthy`, `draining` and `gauges`, the last sample and when it was taken (ms since boot), are the core's, carried over
    boots. `instead_of`: the boot that this process gave up before. Its attempts were aborted, and the owner is told so:
    whatever it held then has killed nobody.
    """

    def __init__(
        self, found: LaneFound, *, worker: str, limit: int, timings: Timings, now: Now,
        instead_of: str | None = None, per_minute: PerMinute | None = None,
    ) -> None:  # fmt: skip
        self.id, self.lane, self.position = found.boot, found.lane, found.position
        self.epoch, self.healthy = 0, True
        self.gauges: tuple[Gauges, int] | None = None
        self.buried, self.draining, self.leaving = False, False, False
        self.lease, self.pings, self._trust = Lease(timings, now), Pings(timings, now), Trust()
        self.holdings = Holdings(worker=worker, boot=found.boot, timings=timings)
        self._worker, self._limit, self._instead_of = worker, limit, instead_of
        self._per_minute, self._allowances = per_minute, Allowances()
        self._seen: dict[AttemptId, None] = {}
        self._ran: dict[str, None] = {}
        """Beginnings of prompts that were begun, the latest last."""
        self._fenced = False

    def turn(self, now: Now) -> None:
        """Once a step, before anything that happened is taken in."""
        self.pings.turn(now)
        self._trust.turn(self.lease, self.pings, now)

    def report(self, now: Now) -> Report:
        """The snapshot of now."""
        ran, self._fenced = tuple(self._ran) if self._fenced else (), False
        gauges = self.gauges and replace(self.gauges[0], age_ms=max(0, now.boot_ms - self.gauges[1]))
        return Report(
            worker=self._worker,
            boot=self.id,
            epoch=self.epoch,
            lane=self.lane,
            position=self.position,
            limit=self._limit,
            held=self.holdings.report(),
            healthy=self.healthy,
            draining=self.draining,
            instead_of=self._instead_of,
            gauges=gauges,
            per_minute=self._per_minute,
            allowed=self._allowances.told(now),
            ran=ran,
        )

    def read(self, read: LaneRead, now: Now) -> Iterator[Output]:
        """Obey the lane's records; the position moves with what they did."""
        for command in read.commands:
            yield from self._obey(command, now)
        self.position = read.position

    def progress(self, progress: Progress) -> None:
        """Tokens so far."""
        if holding := self.holdings.get(progress.attempt):
            holding.tokens = progress.tokens

    def limits_heard(self, heard: LimitsHeard, now: Now) -> None:
        """What the backend has left; the owner hears at once what it doesn't know, and what is little."""
        if self._allowances.heard(heard.attempt, heard.allowed, self._limit, now):
            self.lease.report_now(now)

    def call_ended(self, ended: CallEnded, now: Now) -> None:
        """The backend is done with an attempt."""
        self._allowances.ended(ended.attempt)
        holding = self.holdings.get(ended.attempt)
        if holding is None or holding.stage is not Stage.RUNNING:
            return
        self.holdings.end(holding, ended.outcome, now)
        failure = ended.outcome.failure
        if failure is not None and failure.kind in _OUTAGES:
            self.set_healthy(False, now)

    def set_healthy(self, healthy: bool, now: Now) -> None:
        """What is known of the backend; a change is reported at once."""
        if healthy is not self.healthy:
            self.healthy = healthy
            self.lease.report_now(now)

    def drain(self, now: Now) -> None:
        """Take no new work and hand back what hasn't started."""
        self.draining = True
        self.lease.report_now(now)
        for holding in self.holdings.at(Stage.WAITING):
            self.holdings.hand_back(holding, FailureKind.WORKER_DRAINED, now)

    def give_back_running(self) -> Iterator[Output]:
        """The drain's grace is over."""
        for holding in self.holdings.at(Stage.RUNNING):
            if holding.stop is None:
                holding.stop = StopReason.DRAINED
                yield Abort(holding.attempt)

    def start_waiting(self, now: Now) -> Iterator[Output]:
        """Fill free slots, oldest first; hand back instead while nothing may be started."""
        trusted = self._trust.given(self.pings)
        free = self._limit - len(self.holdings.at(Stage.RUNNING))
        for holding in self.holdings.at(Stage.WAITING):
            deadline = holding.work.run.request.finish_by_ms
            if deadline is not None and deadline <= now.wall_ms:
                self.holdings.end(holding, unstarted(FailureKind.DEADLINE_PASSED), now)
            elif free > 0 and not trusted:
                self.holdings.hand_back(holding, FailureKind.WORKER_NOT_LEASED, now)
            elif free > 0 and self.lease.is_known(holding.after_report):
                free -= 1
                holding.stage = Stage.RUNNING
                self._runs(holding.work.run.request.prefix)
                self._allowances.begins(holding.work.run)
                yield Start(holding.work)

    def _obey(self, command: Work | Command, now: Now) -> Iterator[Output]:
        if isinstance(command, Ping):
            if command.boot == self.id:
                self.pings.came_back(command.number)
            return
        order = command.run if isinstance(command, Work) else command
        if order.epoch < self.epoch or not (isinstance(order, Fence) or order.boot == self.id):
            return
        self.epoch = order.epoch
        act = self._ACTS.get(type(command))
        if act is not None:
            yield from act(self, command, now)

    def _fence(self, _: Fence, now: Now) -> Iterator[Output]:
        self._fenced = True
        self.lease.report_now(now)
        yield from ()

    def _bury(self, _: Buried, now: Now) -> Iterator[Output]:  # noqa: ARG002 - one shape for every command
        self.buried = True
        yield from ()

    def _drain(self, _: Drain, now: Now) -> Iterator[Output]:
        if not self.draining:
            self.drain(now)
        yield from ()

    def _undrain(self, _: Undrain, now: Now) -> Iterator[Output]:
        if self.draining and not self.leaving:
            self.draining = False
            self.lease.report_now(now)
        yield from ()

    def _run(self, work: Work, now: Now) -> Iterator[Output]:
        if work.run.attempt not in self._seen:
            self._remember(work.run.attempt)
            holding = self.holdings.take(work)
            if work.run.trial:  # should the worker die of it, the owner must know that it had been started
                holding.after_report = self.lease.next_number
                self.lease.report_now(now)
            if self.draining:
                self.holdings.hand_back(holding, FailureKind.WORKER_DRAINED, now)
            elif not self._trust.given(self.pings):
                self.holdings.hand_back(holding, FailureKind.WORKER_NOT_LEASED, now)
        yield from ()

    def _cancel(self, cancel: Cancel, now: Now) -> Iterator[Output]:
        holding = self.holdings.get(cancel.attempt)
        if holding is None or holding.stop is not None:
            return
        if holding.stage is Stage.RUNNING:
            holding.stop = StopReason(cancel.reason)
            yield Abort(holding.attempt)
        elif holding.stage is Stage.WAITING:
            holding.stop = StopReason(cancel.reason)
            self.holdings.end(holding, Outcome(aborted=True, started=False), now)

    def _runs(self, prefix: str) -> None:
        if prefix:
            self._ran.pop(prefix, None)
            self._ran[prefix] = None
            if len(self._ran) > MOST_RAN:
                del self._ran[next(iter(self._ran))]

    def _remember(self, attempt: AttemptId) -> None:
        self._seen[attempt] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]

    _ACTS: dict[type, Callable[..., Iterator[Output]]] = {  # noqa: RUF012 - a table, never changed
        Fence: _fence,
        Buried: _bury,
        Drain: _drain,
        Undrain: _undrain,
        Work: _run,
        Cancel: _cancel,
    }
