"""A small worker that obeys, on the bus of scheduler.live. Used by tests/integration/scheduler and tests/benchmarks.

Turned by the test's own thread. It keeps no lease and runs nothing: the product's own worker does that.
"""

from collections import Counter
from datetime import timedelta

from headrace.bus.messages import Message, Received, message_of
from headrace.bus.ports import END
from headrace.contracts.codec import decode
from headrace.contracts.commands import Buried, Cancel, Fence, Run
from headrace.contracts.ids import AttemptId, boot_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.prefixes import Prefix
from headrace.contracts.reports import Gone, Report
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Payload, Usage
from tests.support.scheduler.live import Pool
from tests.support.scheduler.reports import held_of

_NO_WAIT = timedelta()


class LiveWorker:
    """Answers each `run` at once, or keeps it while `holding`. `ran`: how often each request was started. Once it was taken
    for dead, it registers anew, as a worker does.
    """

    def __init__(self, pool: Pool, *, limit: int = 4, name: str = "w", lane: int = 0) -> None:
        self.pool, self.limit, self.name = pool, limit, name
        self.holding, self.draining = False, False
        self.ran: Counter[str] = Counter()
        self.stuck: set[str] = set()
        """Requests that are never finished."""
        self.commands: list[object] = []
        self.values: list[bytes | None] = []
        self._producer = pool.bus.loop_producer("worker", delivery_timeout=timedelta(seconds=10))
        self._reader = pool.bus.loop_reader("worker")
        self._lane = pool.place(TopicKind.WORK, lane)
        pool.assign(self._reader, {self._lane: END})
        self._position = self._reader.position(self._lane)
        self._boots = 0
        self.boot, self._epoch = self._new_boot(), 0
        self._held: dict[AttemptId, Run] = {}
        self._answered: dict[AttemptId, Status] = {}
        self._reported_ms = 0

    def turn(self) -> None:
        """Obey, answer, report."""
        for received in self._reader.read(500, _NO_WAIT):
            self._position = received.offset + 1
            self._obey(received)
        if not self.holding:
            for run in [run for run in self._held.values() if run.request.id not in self.stuck]:
                self._finish(run)
        for confirmation in self._producer.confirmations():
            if isinstance(confirmation.token, Run):
                self._acknowledged(confirmation.token)
            elif isinstance(confirmation.token, AttemptId):
                self._held.pop(confirmation.token, None)
        if self.pool.clock.now().boot_ms - self._reported_ms >= 50:
            self.report()

    def report(self, begun: tuple[Prefix, ...] = ()) -> None:
        """Say what is held, and with what the prompts began that were begun last."""
        self._reported_ms = self.pool.clock.now().boot_ms
        held = tuple(held_of(run) for run in self._held.values())
        report = Report(
            worker=self.name,
            boot=self.boot,
            epoch=self._epoch,
            lane=self._lane.partition,
            position=self._position,
            limit=self.limit,
            held=held,
            draining=self.draining,
            ran=begun,
        )
        self._send(message_of(self.pool.place(TopicKind.WORKERS), report))

    @property
    def empty(self) -> bool:
        """Whether it holds nothing: of all that it was given, the attempt's record is acknowledged too, which comes after the
        result's.
        """
        return not self._held

    def begun(self) -> tuple[Prefix, ...]:
        """What a new owner is told."""
        return ()

    def usage_of(self, run: Run) -> Usage:  # noqa: ARG002
        """What its engine says that an attempt used."""
        return Usage(prompt_tokens=4, completion_tokens=3)

    def leave(self) -> None:
        """Say goodbye. Only once `empty`: what it still held would run again elsewhere."""
        assert self.empty, f"{self.name} leaves with work in its hands"
        self._send(message_of(self.pool.place(TopicKind.WORKERS), Gone(worker=self.name, boot=self.boot)))
        self._producer.flush(timedelta(seconds=5))
        self.close()

    def close(self) -> None:
        """Let go."""
        self._producer.close()
        self._reader.close()

    def _send(self, message: Message, token: object = None) -> None:
        self._producer.send(message, token)

    def _obey(self, received: Received) -> None:
        command = decode(TopicKind.WORK, received.header)
        self.commands.append(command)
        if isinstance(command, Fence):
            self._epoch = max(self._epoch, command.epoch)
            self.report(self.begun())
        elif isinstance(command, Buried) and command.boot == self.boot:
            self._register_anew()
        elif isinstance(command, Run) and command.boot == self.boot and command.epoch >= self._epoch:
            self.ran[command.request.id] += 1
            self.values.append(received.value)
            self._held[command.attempt] = command
        elif isinstance(command, Cancel) and command.attempt in self._held:
            self._finish(self._held[command.attempt], Status.CANCELLED)

    def _finish(self, run: Run, status: Status = Status.SUCCEEDED) -> None:
        if run.attempt in self._answered:
            return
        self._answered[run.attempt] = status
        request = run.request
        result = ResultRecord(
            id=request.id,
            tenant=request.tenant,
            pool=request.pool,
            tier=request.tier,
            partition=request.partition,
            origin=run.origin,
            attempt=run.attempt,
            attempts=run.attempts,
            status=status,
            http_status=200,
            accepted_ms=request.accepted_ms,
            gateway=request.gateway,
            model=request.model,
            route=request.route,
            payload=Payload(size=0),
        )
        self._send(message_of(self.pool.place(TopicKind.RESULTS, request.partition), result), run)

    def _new_boot(self) -> str:
        self._boots += 1
        return boot_id(self.pool.clock.now().wall_ms, f"{self.name:>8.8}{self._boots:02}".encode())

    def _register_anew(self) -> None:
        self.boot = self._new_boot()
        self._held.clear()
        self.report()

    def _acknowledged(self, run: Run) -> None:
        if run.attempt not in self._held:
            return  # it belonged to a boot that was buried
        record = AttemptRecord(
            id=run.request.id,
            tenant=run.request.tenant,
            tier=run.request.tier,
            origin=run.origin,
            attempt=run.attempt,
            attempts=run.attempts,
            verdict=Verdict.DONE,
            status=self._answered[run.attempt],
            charge=run.charge,
            expects=run.expects,
            usage=self.usage_of(run),
        )
        self._send(
            message_of(self.pool.place(TopicKind.ATTEMPTS, run.request.partition), record), run.attempt
        )
