"""Two pools and more, with owners and workers that obey, in virtual time: the real cores, and requests that are passed on.

Used by tests/unit/scheduler/test_rerouting.py. Owners die when the test says so; the wire is as late and lossy as the seed.
Invariant: what is judged is what stands in the logs, and what ran.
"""

from collections import Counter
from typing import Any

import msgspec

from headrace.bus.messages import Message, Place, message_of
from headrace.contracts.codec import decode
from headrace.contracts.commands import Cancel, CancelReason, Fence, Run
from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId, boot_id, mint_request_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy, policy_from
from headrace.contracts.reports import Report
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Payload, Usage
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.decisions.when_to_pause import Window
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import NAMES, STEP_MS, World
from tests.support.scheduler.reports import held_of

HOME, AWAY, THIRD = "home", "away", "third"
KEY, TENANT = b"k" * 32, "a"
PARTITION = partition_of(TENANT, 2)
MODELS = {HOME: "big-v1", AWAY: "small-v1", THIRD: "tiny-v1"}
"""The name by which a pool's backends know its model."""


def policy_of_pools(**of_home: Any) -> Policy:
    """Three pools, each with a model of its own; `of_home`: what else it says of the first."""
    pools: dict[str, Any] = {pool: {"models": {pool: model}} for pool, model in MODELS.items()}
    pools[HOME] |= of_home
    return policy_from(
        {
            "pools": pools,
            "tiers": {"batch": {"weight": 1, "queue_timeout": "24h"}},
            "topics": {"tenant_partitions": 2, "lanes": 1, "gateways": 1},
        }
    )


class ObedientWorker:
    """One worker of a pool: whatever it is given succeeds after `runs_ms`, unless it is cancelled before."""

    def __init__(self, world: World, pool: str, runs_ms: int = 200, limit: int = 4) -> None:
        self.world, self.pool, self.runs_ms, self.limit = world, pool, runs_ms, limit
        self.boot = boot_id(world.now.wall_ms, world.rng.randbytes(10))
        self.epoch, self.position, self._reported_ms = 0, len(world.logs[self._log(TopicKind.WORK)]), -(10**9)
        self.held: dict[AttemptId, tuple[Run, int]] = {}
        self.ran: Counter[str] = Counter()
        self.models: dict[str, str] = {}
        self.context_length: int | None = None
        """Of its engine, which refuses longer prompts and says so."""

    def turn(self) -> None:
        """Obey, run, report."""
        for received in self.world.read(self._log(TopicKind.WORK), self.position):
            self.position = received.offset + 1
            self._obey(decode(TopicKind.WORK, received.header))
        for run, ends_ms in list(self.held.values()):
            if ends_ms <= self.world.now_ms:
                self._end(run, Status.SUCCEEDED)
        if self.world.now_ms - self._reported_ms >= 500:
            self._report()

    def _log(self, kind: TopicKind, partition: int = 0) -> Place:
        return Place(NAMES.of(kind, pool=self.pool), partition)

    def _obey(self, command: Any) -> None:
        if isinstance(command, Fence):
            self.epoch = max(self.epoch, command.epoch)
            self._report()
        elif isinstance(command, Run) and command.epoch >= self.epoch:
            self.held[command.attempt] = (command, self.world.now_ms + self.runs_ms)
            self.ran[command.request.id] += 1
            self.models[command.request.id] = command.request.model
        elif isinstance(command, Cancel) and command.attempt in self.held:
            run, _ = self.held[command.attempt]
            if command.reason is CancelReason.SUPERSEDED:
                del self.held[command.attempt]
            else:
                self._end(run, Status.CANCELLED)

    def _end(self, run: Run, status: Status) -> None:
        del self.held[run.attempt]
        request, failure = run.request, None
        if self.context_length is not None and request.prompt_tokens > self.context_length:
            message = f"This model's maximum context length is {self.context_length} tokens. However, ..."
            status = Status.FAILED
            failure = Failure(kind=FailureKind.CONTEXT_LENGTH_EXCEEDED, message=message)
        result = ResultRecord(
            id=request.id, tenant=request.tenant, pool=request.pool, tier=request.tier, partition=request.partition,
            origin=run.origin, attempt=run.attempt, attempts=run.attempts, status=status, http_status=200,
            accepted_ms=request.accepted_ms, gateway=0, model=request.model, route=request.route,
            payload=Payload(size=2), failure=failure,
        )  # fmt: skip
        attempt = AttemptRecord(
            id=request.id, tenant=request.tenant, tier=request.tier, origin=run.origin, attempt=run.attempt,
            attempts=run.attempts, verdict=Verdict.DONE, status=status, worker="w", boot=self.boot,
            charge=run.charge, usage=Usage(prompt_tokens=1, completion_tokens=1), hop=request.hop,
            failure=failure,
        )  # fmt: skip
        self.world.append(message_of(self._log(TopicKind.RESULTS, request.partition), result, b"{}"))
        self.world.append(message_of(self._log(TopicKind.ATTEMPTS, request.partition), attempt))

    def _report(self) -> None:
        self._reported_ms = self.world.now_ms
        held = tuple(held_of(run) for run, _ in self.held.values())
        report = Report(
            worker="w", boot=self.boot, epoch=self.epoch, lane=0, position=self.position, limit=self.limit, held=held,
        )  # fmt: skip
        self.world.append(message_of(self._log(TopicKind.WORKERS), report))


class TwoPools:
    """The pool `home` without a worker, and `away` with one; `third`, with an owner where `owned` says so."""

    def __init__(
        self,
        seed: int = 1,
        *,
        faults_end_ms: int = 0,
        policy: Policy | None = None,
        owned: tuple[str, ...] = (HOME, AWAY),
    ) -> None:
        self.world = World(seed, faults_end_ms)
        made = policy or policy_of_pools()
        self.owners = {pool: SimScheduler(self.world, 0, pool, made) for pool in owned}
        self.standby = SimScheduler(self.world, 1, HOME, made)
        """Another replica for `home`, which takes over from one that is paused."""
        self.paused: set[SimScheduler] = set()
        for owner in (*self.owners.values(), self.standby):
            object.__setattr__(owner.setting, "window", Window())
        self.workers = [ObedientWorker(self.world, AWAY)]
        self.count = 0
        self.orders: list[tuple[int, str, str]] = []
        """(from when, id, pool): requests that are to be passed on from there on, for as long as they wait somewhere else."""

    def run(self, duration_ms: int) -> None:
        """Let time pass."""
        for _ in range(duration_ms // STEP_MS):
            self.turn()

    def turn(self) -> None:
        """One step of time, and of everybody."""
        self.world.advance()
        for from_ms, request_id, to in self.orders:
            if self.world.now_ms >= from_ms:
                self._order(request_id, to)
        for replica in (*self.owners.values(), self.standby):
            if replica not in self.paused:
                replica.turn()
        for worker in self.workers:
            worker.turn()

    def _order(self, request_id: str, to: str) -> None:
        for pool in self.owners:
            core = self.core_of(pool)
            tracked = None if core is None else core.state.tracked.get(request_id)
            if core is not None and tracked is not None:
                core.rerouting.begin(tracked, to, MODELS[to])

    def core_of(self, pool: str) -> PoolCore | None:
        """Who owns a pool and is past its gate; a zombie may believe so, too: of a lesser epoch."""
        replicas = [self.owners[pool]] + [self.standby] * (pool == HOME)
        cores = [each.core for each in replicas if each.core is not None and each.core.state.open]
        return max(cores, key=lambda core: core.state.epoch, default=None)

    def submit(self, **more: Any) -> RequestRecord:
        """A request that came into the pool `home`."""
        self.count += 1
        wall_ms = self.world.now.wall_ms
        made = mint_request_id(
            KEY, tenant=TENANT, pool=HOME, tier="batch", partition=PARTITION, wall_ms=wall_ms,
            random=self.count.to_bytes(10, "big"),
        )  # fmt: skip
        fields: dict[str, Any] = {
            "tenant": TENANT, "pool": HOME, "tier": "batch", "partition": PARTITION, "model": "big-v1", "route": "/r",
            "accepted_ms": wall_ms, "payload": Payload(size=2), "gateway": 0, "max_tokens": 1,
        }  # fmt: skip
        record = RequestRecord(id=made, **(fields | more))
        self.write(record)
        return record

    def write(self, record: RequestRecord) -> None:
        """Into the log that it names."""
        topic = NAMES.of(TopicKind.REQUESTS, pool=record.pool, tier=record.tier)
        made = message_of(Place(topic, record.partition), record, b"{}")
        self.world.append(Message(made.topic, made.partition, b"{}", made.headers))

    def cancel(self, record: RequestRecord, *, noted: bool = False) -> None:
        """As ingest does: asks the owner of the pool that the id names and, once the database has noted where its record
        stands else, that of the pool farthest off.
        """
        cancel = CancelRequest(id=record.id, tenant=TENANT, at_ms=self.world.now.wall_ms)
        self.world.append(message_of(Place(NAMES.of(TopicKind.CONTROL, pool=HOME), 0), cancel))
        there = [each for pool in (AWAY, THIRD) for each in self.log(TopicKind.REQUESTS, pool, PARTITION)]
        hops = {
            each.hop: each.pool for each in there if isinstance(each, RequestRecord) and each.id == record.id
        }
        if noted and hops:
            place = Place(NAMES.of(TopicKind.CONTROL, pool=hops[max(hops)]), 0)
            self.world.append(message_of(place, msgspec.structs.replace(cancel, hop=max(hops))))

    def ask(self, record: RequestRecord) -> None:
        """As ingest does."""
        query = Query(id=record.id, nonce=f"n{self.world.now_ms}", gateway=0)
        self.world.append(message_of(Place(NAMES.of(TopicKind.CONTROL, pool=HOME), 0), query))

    def log(self, kind: TopicKind, pool: str = HOME, partition: int = 0) -> list[Any]:
        """The records of a log."""
        place = Place(NAMES.of(kind, pool=pool, tier="batch"), partition)
        return [decode(kind, received.header) for received in self.world.logs[place]]

    def results(self) -> dict[str, list[Status]]:
        """All terminal records of each request, in log order."""
        found: dict[str, list[Status]] = {}
        for result in self.log(TopicKind.RESULTS, partition=PARTITION):
            found.setdefault(result.id, []).append(result.status)
        return found

    def settle(self, within_ms: int = 60_000) -> None:
        """Let all come to rest."""
        end_ms = self.world.now_ms + within_ms
        while self.unfinished() and self.world.now_ms < end_ms:
            self.turn()

    def unfinished(self) -> list[str]:
        """What isn't done yet, a sentence each."""
        found = []
        for pool in self.owners:
            core = self.core_of(pool)
            if core is None:
                found.append(f"{pool} has no owner")
                continue
            state = core.state
            kept = {
                "waiting or running": len(state.tracked), "on their way": len(state.reroutes),
                "cancels passed on": len(state.passed_on), "cancels": len(state.cancels),
            }  # fmt: skip
            found += [f"{pool}: {number} {what}" for what, number in kept.items() if number]
            for place, partition in state.partitions.by_place.items():
                end = len(self.world.logs[place])
                if partition.finished.prefix < end:
                    found.append(f"{place.topic}/{place.partition} isn't finished to its end")
        return found

    def wrong(self, submitted: list[RequestRecord], *, runs: int = 1) -> list[str]:
        """What is wrong at rest, a sentence each: of each request one run at most (`runs`), and one end at least."""
        bad, results, ran = self.unfinished(), self.results(), Counter[str]()
        for worker in self.workers:
            ran += worker.ran
        for record in submitted:
            name = f"{record.id[-6:]}"
            if record.id not in results:
                bad.append(f"{name} is lost")
            if ran[record.id] > runs:
                bad.append(f"{name} ran {ran[record.id]} times")
        letters = [r for p, log in self.world.logs.items() if p.topic == NAMES.of(TopicKind.DLQ) for r in log]
        return bad + [f"{len(letters)} dead letters"] * bool(letters)
