"""A pool whose workers or engines die of marked prompts, in virtual time: the real core of the scheduler, workers that obey.

Used by tests/unit/scheduler/test_suspects.py. Nothing is lost or late by chance: what dies, dies of a prompt or by a test.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headrace.bus.messages import message_of
from headrace.contracts.codec import decode
from headrace.contracts.commands import Buried, Cancel, Fence, Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId, boot_id, mint_request_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.observations import DeadLetter
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.partitions import partition_of
from headrace.contracts.reports import Report
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Payload, Usage
from headrace.scheduler.decisions.when_to_pause import Window
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import POOL, World, place
from tests.support.scheduler.reports import held_of

KEY = b"k" * 32
KILLER = b"killer"
RESTART_MS, KILLS_AFTER_MS = 1_000, 100


@dataclass
class DeadlyWorker:
    """One worker and its engine. A killer ends one of them 100 ms after it was started; a restart takes 1 s."""

    world: World
    name: str
    lane: int
    limit: int
    kills: Literal["worker", "engine"]
    runs_ms: int
    boot: str = ""
    epoch: int = 0
    position: int = 0
    silent_until: int = 0
    sick_until: int = 0
    always_sick: bool = False
    deaths: int = 0
    company: int = 0
    reported: int = -(10**9)
    instead_of: str | None = None
    held: dict[AttemptId, tuple[Run, int, bool]] = field(default_factory=dict)
    ran: Counter[str] = field(default_factory=Counter)
    trials: list[tuple[str, int, int]] = field(default_factory=list)
    long: set[str] = field(default_factory=set)
    """Ids of requests that don't end while they are in here."""

    def __post_init__(self) -> None:
        self.register()

    def register(self, instead_of: str | None = None) -> None:
        """A new boot, which begins at its lane's end."""
        self.boot = boot_id(self.world.now.wall_ms, self.world.rng.randbytes(10))
        self.held, self.epoch, self.instead_of = {}, 0, instead_of
        self.position = len(self.world.logs[place(TopicKind.WORK, self.lane)])
        self.report()

    def kill(self) -> None:
        """SIGKILL: silent, then a new process."""
        self.deaths += 1
        self.held, self.silent_until = {}, self.world.now_ms + RESTART_MS

    def report(self) -> None:
        """What it holds."""
        self.reported = self.world.now_ms
        held = tuple(held_of(run, trial=run.trial) for run, _, _ in self.held.values())
        report = Report(
            worker=self.name, boot=self.boot, epoch=self.epoch, lane=self.lane, position=self.position,
            limit=self.limit, held=held, healthy=self.world.now_ms >= self.sick_until,
            instead_of=self.instead_of,
        )  # fmt: skip
        self.world.append(message_of(place(TopicKind.WORKERS), report))

    def turn(self) -> None:
        """Obey, run, die."""
        now = self.world.now_ms
        if now < self.silent_until:
            return
        if self.silent_until:
            self.silent_until = 0
            self.register()
        for received in self.world.read(place(TopicKind.WORK, self.lane), self.position):
            self.position = received.offset + 1
            self._obey(decode(TopicKind.WORK, received.header), received.value or b"")
        if now - self.reported >= 500:
            self.report()
        self._run(now)

    def _obey(self, command: Any, value: bytes) -> None:
        if isinstance(command, Fence) and command.epoch > self.epoch:
            self.epoch = command.epoch
            self.report()
        elif isinstance(command, Buried) and command.boot == self.boot:
            self.register(instead_of=self.boot)
        elif isinstance(command, Run) and command.boot == self.boot and command.epoch >= self.epoch:
            self.held[command.attempt] = (command, self.world.now_ms, KILLER in value)
            self.ran[command.request.id] += 1
            tried = [run.trial for run, _, _ in self.held.values() if run.trial]
            self.company += bool(tried) and tried != [command.trial] * len(self.held)
            if command.trial:
                self.trials.append((command.request.id, command.trial, len(self.held)))
                self.report()
        elif isinstance(command, Cancel):
            self.held.pop(command.attempt, None)

    def _run(self, now: int) -> None:
        if now < self.sick_until:
            for run, _, _ in list(self.held.values()):
                self._end(run, Verdict.RETRY_AT, kind=FailureKind.BACKEND_UNAVAILABLE, started=False)
            return None
        for run, began, deadly in list(self.held.values()):
            if (deadly or self.always_sick) and now - began >= KILLS_AFTER_MS:
                return self._die()
            if now - began >= self.runs_ms and run.request.id not in self.long:
                self._end(run, Verdict.DONE)
        return None

    def _die(self) -> None:
        if self.kills == "worker":
            return self.kill()
        self.deaths += 1
        self.sick_until = self.world.now_ms + RESTART_MS
        for run, _, _ in list(self.held.values()):
            self._end(run, Verdict.RETRY_AT, kind=FailureKind.ENGINE_DIED)
        return self.report()

    def _end(
        self, run: Run, verdict: Verdict, kind: FailureKind | None = None, *, started: bool = True
    ) -> None:
        del self.held[run.attempt]
        request = run.request
        shared: dict[str, Any] = {
            "id": request.id, "tenant": request.tenant, "tier": request.tier, "origin": run.origin,
            "attempt": run.attempt, "attempts": run.attempts, "worker": self.name,
        }  # fmt: skip
        failure = None if kind is None else Failure(kind=kind, message="it said so")
        if verdict is Verdict.DONE:
            result = ResultRecord(
                **shared, pool=POOL, partition=request.partition, status=Status.SUCCEEDED, http_status=200,
                accepted_ms=request.accepted_ms, gateway=0, model="m", route="/r", payload=Payload(size=0),
            )  # fmt: skip
            self.world.append(message_of(place(TopicKind.RESULTS, request.partition), result))
        record = AttemptRecord(
            **shared, verdict=verdict, boot=self.boot, started=started, failure=failure, trial=run.trial,
            status=Status.SUCCEEDED if verdict is Verdict.DONE else None,
            usage=Usage(prompt_tokens=1, completion_tokens=1) if started else Usage(),
        )  # fmt: skip
        self.world.append(message_of(place(TopicKind.ATTEMPTS, request.partition), record))


class DeadlyPool:
    """One owner, some workers, and callers whose requests are there from the beginning."""

    def __init__(
        self, *, seed: int = 1, workers: int = 2, limit: int = 8, kills: Literal["worker", "engine"] = "worker",
        runs_ms: int = 200,
    ) -> None:  # fmt: skip
        self.world = World(seed, faults_end_ms=0)
        self.owner = SimScheduler(self.world, 0)
        self.owner.setting = replace(self.owner.setting, window=Window())
        self.workers = [DeadlyWorker(self.world, f"w{n}", n, limit, kills, runs_ms) for n in range(workers)]
        self.requests: list[str] = []

    def submit(self, value: bytes = b"{}", tenant: str = "a", **more: Any) -> str:
        """One request, at once in the log."""
        partition, wall = partition_of(tenant, 2), self.world.now.wall_ms
        made = mint_request_id(
            KEY, tenant=tenant, pool=POOL, tier="batch", partition=partition, wall_ms=wall,
            random=len(self.requests).to_bytes(10, "big"),
        )  # fmt: skip
        record = RequestRecord(
            id=made, tenant=tenant, pool=POOL, tier="batch", partition=partition, model="m", route="/r",
            accepted_ms=wall, payload=Payload(size=2), gateway=0, max_tokens=1, **more,
        )  # fmt: skip
        self.world.append(message_of(place(TopicKind.REQUESTS, partition, "batch"), record, value))
        self.requests.append(made)
        return made

    def run(self, ms: int) -> None:
        """Let time pass."""
        for _ in range(ms // 25):
            self.world.advance()
            self.owner.turn()
            for worker in self.workers:
                worker.turn()

    def run_until_ended(self, within_ms: int = 300_000) -> None:
        """Until every request has its end."""
        until = self.world.now_ms + within_ms
        while self.world.now_ms < until and len(self.ends()) < len(self.requests):
            self.run(500)

    def ends(self) -> dict[str, Status]:
        """How each request ended."""
        results: list[Any] = self.world.records(TopicKind.RESULTS)
        found: dict[str, Status] = {}
        for result in results:
            found.setdefault(result.id, result.status)
        return found

    def letters(self) -> list[DeadLetter]:
        """All dead letters."""
        return [letter for letter in self.world.records(TopicKind.DLQ) if isinstance(letter, DeadLetter)]

    @property
    def deaths(self) -> int:
        """Of workers and engines."""
        return sum(worker.deaths for worker in self.workers)

    @property
    def ran(self) -> Counter[str]:
        """How often each request was started."""
        return sum((worker.ran for worker in self.workers), Counter())
