"""A scheduler on a real or in-memory bus with a small worker that obeys, for tests/integration/scheduler.

Everything is turned by the test's own thread: no waiting but for conditions.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from headrace.bus.messages import Message, Place, Received, message_of
from headrace.bus.ports import END, START, Bus, BusUnavailableError, LoopReader
from headrace.bus.topic_check import apply_topics
from headrace.contracts.checkpoints import Ownership
from headrace.contracts.codec import decode
from headrace.contracts.commands import Buried, Cancel, Fence, Run
from headrace.contracts.control import ControlRecord
from headrace.contracts.ids import AttemptId, boot_id, mint_request_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy
from headrace.contracts.reports import Gone, Held, Report
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind, TopicNames, required_topics
from headrace.contracts.values import Payload, Usage
from headrace.runtime.clock import Clock, SystemClock
from headrace.runtime.telemetry import Telemetry
from headrace.scheduler.service import Scheduler
from headrace.scheduler.settings import SchedulerSettings
from headrace.scheduler.timings import Timings
from headrace.scheduler.wiring import build
from tests.support.eventually import eventually
from tests.support.scheduler_world import POOL

_NO_WAIT = timedelta()
DEADLINE_MS = 30_000
_KEY = b"k" * 32
FAST = Timings(
    checkpoint=timedelta(milliseconds=200),
    silent=timedelta(milliseconds=900),
    back_off=timedelta(milliseconds=100),
    tick=timedelta(milliseconds=100),
    trim=timedelta(milliseconds=200),
)


@dataclass
class Pool:
    """The logs of one pool on one bus, as a test sees them."""

    bus: Bus
    prefix: str
    policy: Policy
    clock: Clock = field(default_factory=SystemClock)
    submitted: int = 0

    def __post_init__(self) -> None:
        self.names = TopicNames(self.prefix)
        topics = self.bus.topics("test")
        counts = self.policy.topics.counts()
        pools = self.policy.pools
        apply_topics(topics, required_topics(self.names, counts, pools=pools, tiers=self.policy.tiers))
        topics.close()
        self.producer = self.bus.loop_producer("test", delivery_timeout=timedelta(seconds=10))
        self.results: list[ResultRecord] = []
        self._reader = self.bus.loop_reader("test")
        partitions = range(self.policy.topics.tenant_partitions)
        self.assign(self._reader, {Place(self.names.of(TopicKind.RESULTS), p): START for p in partitions})

    @staticmethod
    def assign(reader: LoopReader, positions: dict[Place, int]) -> None:
        """A topic made a moment ago has no leader yet: assign as soon as that is possible."""

        def possible() -> bool:
            try:
                reader.assign(positions)
            except BusUnavailableError:
                return False
            return True

        eventually(possible, "the logs can be read")

    def place(self, kind: TopicKind, partition: int = 0, tier: str = "") -> Place:
        """A partition of one of its topics."""
        return Place(self.names.of(kind, pool=POOL, tier=tier), partition)

    def scheduler(self, name: str, replicas: tuple[str, ...] = (), timings: Timings = FAST) -> Scheduler:
        """A new replica."""
        settings = SchedulerSettings(prefix=self.prefix, name=name, replicas=replicas)
        telemetry = Telemetry.create(settings, self.clock)
        return build(settings, bus=self.bus, policy=self.policy, telemetry=telemetry, timings=timings)

    def tell(self, record: ControlRecord) -> None:
        """Write to `control`."""
        self.producer.send(message_of(self.place(TopicKind.CONTROL), record), None)

    def submit(self, count: int, tenant: str = "a", tier: str = "batch") -> list[str]:
        """Let so many requests be accepted; their ids."""
        return [self._submit_one(tenant, tier) for _ in range(count)]

    def results_read(self) -> list[ResultRecord]:
        """All results so far."""
        found = self._reader.read(500, _NO_WAIT)
        self.results += [decode(TopicKind.RESULTS, received.header) for received in found]
        return self.results

    def _submit_one(self, tenant: str, tier: str) -> str:
        partition = partition_of(tenant, self.policy.topics.tenant_partitions)
        self.submitted += 1
        wall = self.clock.now().wall_ms
        made = mint_request_id(
            _KEY,
            tenant=tenant,
            pool=POOL,
            tier=tier,
            partition=partition,
            wall_ms=wall,
            random=self.submitted.to_bytes(10, "big"),
        )
        record = RequestRecord(
            id=made,
            tenant=tenant,
            pool=POOL,
            tier=tier,
            partition=partition,
            model="m",
            route="/v1/chat/completions",
            accepted_ms=wall,
            payload=Payload(size=2),
            gateway=0,
            max_tokens=10,
            prompt_tokens=4,
        )
        self.producer.send(message_of(self.place(TopicKind.REQUESTS, partition, tier), record, b"{}"), None)
        return made

    def close(self) -> None:
        """Let go."""
        self._reader.close()
        self.producer.close()


def turn_until(pool: Pool, turns: list[Callable[[], None]], condition: Callable[[], bool]) -> None:
    """Turn these one after the other until the condition holds."""
    deadline = pool.clock.now().boot_ms + DEADLINE_MS
    while not condition():
        assert pool.clock.now().boot_ms < deadline, "the condition didn't come true in time"
        for turn in turns:
            turn()


class Ownerships:
    """Who has owned a pool, as `state` tells it."""

    def __init__(self, pool: Pool, name: str = POOL) -> None:
        self._reader = pool.bus.loop_reader("ownerships")
        self._all: list[Ownership] = []
        pool.assign(self._reader, {Place(pool.names.of(TopicKind.STATE, pool=name), 0): START})

    def all(self) -> list[Ownership]:
        """All so far, in log order."""
        found = [decode(TopicKind.STATE, r.header) for r in self._reader.read(500, _NO_WAIT)]
        self._all += [record for record in found if isinstance(record, Ownership)]
        return self._all

    def last(self) -> Ownership | None:
        """The newest."""
        return self.all()[-1] if self.all() else None

    def open_by(self, name: str) -> bool:
        """Whether this replica owns it, and its gate is open."""
        last = self.last()
        return last is not None and (last.owner, last.gate_open, last.released) == (name, True, False)

    def close(self) -> None:
        """Let go."""
        self._reader.close()


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

    def report(self) -> None:
        """Say what is held."""
        self._reported_ms = self.pool.clock.now().boot_ms
        held = tuple(
            Held(
                attempt=run.attempt,
                id=run.request.id,
                tenant=run.request.tenant,
                tier=run.request.tier,
                origin=run.origin,
                attempts=run.attempts,
                charge=run.charge,
                running=True,
            )
            for run in self._held.values()
        )
        report = Report(
            worker=self.name,
            boot=self.boot,
            epoch=self._epoch,
            lane=self._lane.partition,
            position=self._position,
            limit=self.limit,
            held=held,
            draining=self.draining,
        )
        self._send(message_of(self.pool.place(TopicKind.WORKERS), report))

    @property
    def empty(self) -> bool:
        """Whether it holds nothing."""
        return not self._held

    def leave(self) -> None:
        """Say goodbye."""
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
            self.report()
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
            usage=Usage(prompt_tokens=4, completion_tokens=3),
        )
        self._send(
            message_of(self.pool.place(TopicKind.ATTEMPTS, run.request.partition), record), run.attempt
        )
