"""One seeded history of the simulated world, and its judge. Used by tests/unit/scheduler/test_protocol_histories.py."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from headrace.bus.messages import Message, message_of
from headrace.contracts.checkpoints import Finished, Ownership, Positions
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.control import CancelRequest
from headrace.contracts.ids import mint_request_id
from headrace.contracts.outcomes import ResultRecord
from headrace.contracts.partitions import partition_of
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Payload
from headrace.scheduler.core.pool_core import PoolCore
from tests.support.scheduler_processes import STATE, Process, Ran, SimScheduler, SimWorker
from tests.support.scheduler_world import POOL, World, place

KEY = b"k" * 32
END_MS = 120_000


@dataclass
class Accepted:
    """What callers were promised an answer to."""

    ids: list[str] = field(default_factory=list)
    places: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    garbage: int = 0


class History:
    """Runs a seed until everything has come to rest."""

    def __init__(self, seed: int) -> None:
        self.seed, self.world = seed, World(seed)
        self.worker_faults, self.retries = seed % 2 == 0, seed % 3 == 0
        rng, longest_ms = self.world.rng, 8_000 if seed % 5 == 0 else 2_000
        self.schedulers = [SimScheduler(self.world, rank) for rank in range(2)]
        self.workers = [
            SimWorker(self.world, f"worker{n}", n % 2, retries=self.retries, longest_ms=longest_ms)
            for n in range(rng.randint(1, 3))
        ]
        self.paused_until: dict[object, int] = {}
        self.accepted = Accepted()
        self.to_cancel: list[tuple[int, str, str]] = []
        self.plan = sorted((rng.randint(0, 8_000), n) for n in range(14))

    def run(self) -> list[str]:
        """What went wrong; nothing when all is well."""
        while self.world.now_ms < END_MS and not self._at_rest():
            self.world.advance()
            self._callers()
            processes: list[Process] = [*self.schedulers, *self.workers]
            for process in processes:
                if not self._faults(process):
                    process.turn()
        return self._judge()

    def _at_rest(self) -> bool:
        if self.world.faulty or self.plan or self.to_cancel or self.world.now_ms % 1_000:
            return False
        owner = self._owner()
        if owner is None or owner.state.tracked or len(owner.state.held):
            return False
        return not self._unanswered() and self._all_finished()

    def _owner(self) -> PoolCore | None:
        """The real one: a paused replica may still believe that it is."""
        latest = [s.core for s in self.schedulers if s.core and s.epoch == self.world.producer_epoch]
        return next((core for core in latest if core.state.open), None)

    def _unanswered(self) -> list[str]:
        answered = {r.id for r in self.world.records(TopicKind.RESULTS) if isinstance(r, ResultRecord)}
        return [request for request in self.accepted.ids if request not in answered]

    def _last_finished(self) -> dict[tuple[str, int], int]:
        records = [decode(TopicKind.STATE, r.header) for r in self.world.logs[STATE]]
        return {(r.topic, r.partition): r.prefix for r in records if isinstance(r, Finished)}

    def _all_finished(self) -> bool:
        finished = self._last_finished()
        logs = [(w, log) for w, log in self.world.logs.items() if ".requests." in f".{w.topic}" and log]
        return all(finished.get((w.topic, w.partition)) == len(log) for w, log in logs)

    def _callers(self) -> None:
        while self.plan and self.plan[0][0] <= self.world.now_ms:
            self._submit(self.plan.pop(0)[1])
        for due in [each for each in self.to_cancel if each[0] <= self.world.now_ms]:
            self.to_cancel.remove(due)
            cancel = CancelRequest(id=due[1], tenant=due[2], at_ms=self.world.now.wall_ms)
            self.world.append(message_of(place(TopicKind.CONTROL), cancel))

    def _submit(self, n: int) -> None:
        world, rng = self.world, self.world.rng
        tier, tenant = rng.choice(["interactive", "batch"]), rng.choice("ab")
        partition = partition_of(tenant, 2)
        where = place(TopicKind.REQUESTS, partition, tier)
        if n == 13:
            world.append(Message(where.topic, partition, b"junk", ((HEADER, b"{not json"),)))
            self.accepted.garbage += 1
            return
        wall = world.now.wall_ms
        made = mint_request_id(
            KEY,
            tenant=tenant,
            pool=POOL,
            tier=tier,
            partition=partition,
            wall_ms=wall,
            random=rng.randbytes(10),
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
            start_by_ms=wall + (rng.randint(100, 3_000) if n == 12 else 600_000),
        )
        offset = world.append(message_of(where, record, b"{}"))
        self.accepted.ids.append(made)
        self.accepted.places[made] = (where.topic, partition, offset)
        if n == 11:
            world.append(message_of(where, record, b"{}"))
        if rng.random() < 0.2:
            self.to_cancel.append((world.now_ms + rng.randint(0, 2_000), made, tenant))

    def _faults(self, process: Process) -> bool:
        """Whether it does nothing in this step."""
        world = self.world
        if world.now_ms < self.paused_until.get(process, 0):
            return True
        if not world.faulty or (isinstance(process, SimWorker) and not self.worker_faults):
            return False
        roll, kind = world.rng.random(), type(process).__name__
        if roll < 0.0015:
            world.seen[f"crash {kind}"] += 1
            process.crash()
            self.paused_until[process] = world.now_ms + world.rng.randint(100, 3_000)
        elif roll < 0.003:
            world.seen[f"pause {kind}"] += 1
            if isinstance(process, SimWorker):
                process.disturb()
            self.paused_until[process] = world.now_ms + world.rng.choice([1_000, 3_000, 6_000, 12_000])
        return roll < 0.003

    def _judge(self) -> list[str]:
        bad = [f"A: {request} has no result" for request in self._unanswered()]
        epochs = [o.epoch for o in self._state() if isinstance(o, Ownership)]
        if epochs != sorted(epochs):
            bad.append("B: an old owner's checkpoint after a new owner's")
        bad += self._judge_runs() + self._judge_cancels()
        bad += [f"stopped: {s.stopped}" for s in self.schedulers if s.stopped]
        letters = len(self.world.records(TopicKind.DLQ))
        if letters < self.accepted.garbage:
            bad.append("an undecodable record has no dead letter")
        if not self._all_finished():
            bad.append(f"E: not everything is finished in the last checkpoint: {self._last_finished()}")
        return bad + self._judge_rest()

    def _judge_runs(self) -> list[str]:
        bad = []
        by_request: defaultdict[str, list[Ran]] = defaultdict(list)
        for run in sorted((run for w in self.workers for run in w.runs), key=lambda run: run.began_ms):
            by_request[run.request].append(run)
        for request, runs in by_request.items():
            for a, b in pairwise(runs):
                # one that was paused past its lease may start what it finds in its lane, until it reads `buried`
                if (a.ended_ms or END_MS) > b.began_ms and not (a.disturbed or b.disturbed):
                    bad.append(f"C: {request} ran twice at a time")
            if not self.worker_faults and not self.retries and len(runs) > 1:
                bad.append(f"D: {request} ran {len(runs)} times")
        return bad

    def _judge_cancels(self) -> list[str]:
        """No checkpoint passes a cancel before its request has ended."""
        world, bad = self.world, []
        ended: dict[str, int] = {}
        for where, log in world.logs.items():
            if where.topic.endswith("results"):
                for r in log:
                    ended.setdefault(decode(TopicKind.RESULTS, r.header).id, r.timestamp_ms)
        passed = [
            (record.control, r.timestamp_ms)
            for r in world.logs[STATE]
            if isinstance(record := decode(TopicKind.STATE, r.header), Positions)
        ]
        for r in world.logs[place(TopicKind.CONTROL)]:
            request = decode(TopicKind.CONTROL, r.header).id
            first = next((at for control, at in passed if control > r.offset), None)
            if first is not None and first < ended.get(request, 0):
                bad.append(f"F: a checkpoint passed the cancel of {request} before it ended")
        return bad

    def _judge_rest(self) -> list[str]:
        """At rest nothing is charged for anybody any more."""
        owner = self._owner()
        if owner is None:
            return ["no owner at the end"]
        tiers = owner.state.accounts.tiers
        accounts = [t.account for t in tiers.values()] + [
            a for t in tiers.values() for a in t.tenants.values()
        ]
        left = [a for a in accounts if a.in_flight or a.charged]
        windows = [p for p in owner.state.partitions.by_place.values() if p.records or p.size]
        return [f"G: charges left over: {left}"] * bool(left) + [f"H: windows not empty: {windows}"] * bool(
            windows
        )

    def _state(self) -> list[object]:
        return [decode(TopicKind.STATE, r.header) for r in self.world.logs[STATE]]
