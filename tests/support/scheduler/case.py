"""One owner and one worker that is driven by hand: a case of the core, record by record. Used by tests/unit/scheduler."""

from dataclasses import replace
from typing import Any

from headrace.bus.messages import Message, message_of
from headrace.contracts.codec import decode
from headrace.contracts.commands import Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import boot_id, mint_request_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy
from headrace.contracts.reports import Report
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Payload
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.decisions.when_to_pause import Window
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import POOL, WALL, World, place

KEY = b"k" * 32
BOOT = boot_id(WALL, bytes(10))


class Case:
    """One owner, one hand-driven worker. `policy`: in place of that of scheduler.pure, and windows as in production."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.world = World(1, faults_end_ms=0)
        self.owner = SimScheduler(self.world, 0)
        if policy is not None:
            self.owner.setting = replace(self.owner.setting, policy=policy, window=Window())
        self.count = 0

    @property
    def core(self) -> PoolCore:
        """The owner's."""
        assert self.owner.core is not None
        return self.owner.core

    def run(self, ms: int = 600) -> None:
        """Let time pass."""
        for _ in range(ms // 25):
            self.world.advance()
            self.owner.turn()

    def report(self, limit: int = 4, epoch: int = 1, *, boot: str = BOOT, **more: Any) -> None:
        """The worker says what it holds."""
        position = len(self.world.logs[place(TopicKind.WORK, 0)])
        report = Report(worker="w", boot=boot, epoch=epoch, lane=0, position=position, limit=limit, **more)
        self.world.append(message_of(place(TopicKind.WORKERS), report))

    def submit(self, value: bytes | None = b"{}", *, into: str = "batch", **more: Any) -> RequestRecord:
        """A request, of tenant a unless another is named, at once in the log of this tier."""
        self.count += 1
        tenant = str(more.pop("tenant", "a"))
        partition = partition_of(tenant, 2)
        wall = self.world.now.wall_ms
        made = mint_request_id(
            KEY,
            tenant=tenant,
            pool=POOL,
            tier=into,
            partition=partition,
            wall_ms=wall,
            random=self.count.to_bytes(10, "big"),
        )
        fields = {"id": made, "tier": into, "accepted_ms": wall, "max_tokens": 1, "model": "m", **more}
        record = RequestRecord(
            tenant=tenant,
            pool=POOL,
            partition=partition,
            route="/r",
            payload=Payload(size=2),
            gateway=0,
            **fields,
        )
        message = message_of(
            place(TopicKind.REQUESTS, partition, into), record, trace=(("traceparent", b"00-x"),)
        )
        self.world.append(Message(message.topic, message.partition, value, message.headers))
        return record

    def commands(self, kind: type) -> list[Any]:
        """What the worker was told."""
        found = [decode(TopicKind.WORK, r.header) for r in self.world.logs[place(TopicKind.WORK, 0)]]
        return [command for command in found if isinstance(command, kind)]

    def answer(self, run: Run, verdict: Verdict, **more: Any) -> None:
        """The worker's attempt record."""
        fields = {
            "tenant": run.request.tenant,
            "tier": run.request.tier,
            "origin": run.origin,
            "attempt": run.attempt,
            **more,
        }
        record = AttemptRecord(
            id=run.request.id,
            attempts=run.attempts,
            verdict=verdict,
            charge=run.charge,
            expects=run.expects,
            **fields,
        )
        self.world.append(message_of(place(TopicKind.ATTEMPTS, run.request.partition), record))

    def results(self) -> list[tuple[str, Status, FailureKind | None]]:
        """All terminal records."""
        found: list[Any] = self.world.records(TopicKind.RESULTS)
        return [(r.id, r.status, r.failure and r.failure.kind) for r in found]
