"""The processes of the simulated world: schedulers around the real core, workers that obey the protocol, callers.

Used by tests/support/scheduler_runs.py. Each has `turn()`, called once a step of time, and may be crashed or paused.
"""

from dataclasses import dataclass
from typing import Any, cast

from headrace.bus.messages import Message, Place, Received, message_of
from headrace.bus.newest import newest_of_each_key
from headrace.bus.ports import START, Confirmation
from headrace.contracts.checkpoints import Ownership
from headrace.contracts.codec import decode
from headrace.contracts.commands import Buried, Cancel, CancelReason, Fence, Run
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId, boot_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import AttemptRecord, ResultRecord, Verdict
from headrace.contracts.reports import Held, Report
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure, Payload, Usage
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.pool_state import Setting
from headrace.scheduler.core.restoring import read_state, restore
from headrace.scheduler.core.step import Inputs
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.timings import Timings
from tests.support.scheduler_world import NAMES, POOL, Sender, World, place, policy

STATE = place(TopicKind.STATE)
WORKERS = place(TopicKind.WORKERS)


class SimScheduler:
    """One replica: stands by, claims, owns."""

    def __init__(self, world: World, rank: int) -> None:
        self.world, self.rank = world, rank
        self.setting = Setting(
            pool=POOL,
            owner=f"scheduler{rank}",
            policy=policy(),
            names=NAMES,
            timings=Timings(),
            window=Window(high_records=6, low_records=3),
            random=world.rng.random,
        )
        self.core: PoolCore | None = None
        self.stopped: str | None = None
        self._stand_by()

    def crash(self) -> None:
        """Gone in the middle of whatever it did; a new process stands by."""
        if self.core is not None:
            self.world.crash(self.sender)
        self._stand_by()

    def turn(self) -> None:
        """One turn of its loop."""
        if self.core is None:
            self._watch()
        else:
            self._own(self.core)

    def _stand_by(self) -> None:
        self.core = None
        self._grown, self._since = len(self.world.logs[STATE]), self.world.now_ms

    def _watch(self) -> None:
        log, now = self.world.logs[STATE], self.world.now_ms
        if len(log) > self._grown:
            self._grown, self._since = len(log), now
        silence = 2_000 * self.rank + (3_000 if log else 0)
        if now - self._since >= silence and self.world.out_until[STATE] <= now:
            self._claim()

    def _claim(self) -> None:
        world = self.world
        world.producer_epoch += 1
        self.epoch, self.sender = world.producer_epoch, Sender(world)
        records = read_state(newest_of_each_key(world.logs[STATE]))
        self.core = PoolCore(restore(self.setting, records))
        self.at = {p: 0 if at == START else at for p, at in self.core.positions().items()}
        self.stalled = dict.fromkeys(self.at, 0)
        self.paused: set[Place] = set()
        self.asked: tuple[int, tuple[Place, ...]] | None = None
        self.commit: tuple[int, list[Message]] | None = (world.now_ms, self.core.claim(world.now))
        self.claimed = False

    def _own(self, core: PoolCore) -> None:
        committed = self._committed()
        if committed is None:
            self._stand_by()
            return
        self.claimed = self.claimed or committed
        if not self.claimed:
            return
        out = core.step(Inputs(self._read(), self.sender.take(), self._ends(), committed), self.world.now)
        self.paused, self.stopped = out.paused, out.stop
        for send in out.sends:
            self.sender.send(send.message, send.token)
        if out.checkpoint:
            self.commit = (self.world.now_ms + self.world.rng.choice([1, 20, 200]), out.checkpoint)
        if out.released:
            self._stand_by()
        if out.ask_ends:
            self.asked = (self.world.now_ms + self.world.rng.choice([1, 50, 300]), out.ask_ends)

    def _committed(self) -> bool | None:
        """None: fenced."""
        if self.commit is None or self.world.now_ms < max(self.commit[0], self.world.out_until[STATE]):
            return False
        if self.epoch != self.world.producer_epoch:
            return None
        for message in self.commit[1]:
            self.world.append(message)
        self.commit = None
        return True

    def _ends(self) -> dict[Place, int] | None:
        if self.asked is None or self.world.now_ms < self.asked[0]:
            return None
        places, self.asked = self.asked[1], None
        return {where: len(self.world.logs[where]) for where in places}

    def _read(self) -> list[Received]:
        rng, now = self.world.rng, self.world.now_ms
        found: list[Received] = []
        for where in self.at:
            if self.world.faulty and rng.random() < 0.01:
                self.stalled[where] = now + rng.randint(100, 3_000)
            if where in self.paused or now < self.stalled[where]:
                continue
            new = self.world.read(where, self.at[where])[:50]
            self.at[where] += len(new)
            found += new
        return found


@dataclass
class Ran:
    """A run as it really happened. `disturbed`: its worker was paused or killed meanwhile."""

    request: str
    began_ms: int
    ended_ms: int | None
    disturbed: bool = False


@dataclass
class InHand:
    """An attempt in a worker's hands; `todo`: the records still to be acknowledged."""

    run: Run
    finish_ms: int
    todo: list[Message]
    ran: Ran
    sent: bool = False


class SimWorker:
    """One worker; each registration is a boot. `runs`: what really happened."""

    def __init__(self, world: World, name: str, lane: int, *, retries: bool, longest_ms: int) -> None:
        self.world, self.name, self.lane, self.retries = world, name, lane, retries
        self.longest_ms = longest_ms
        self.runs: list[Ran] = []
        self._register()

    def crash(self) -> None:
        """Gone; a new process registers."""
        self.world.crash(self.sender)
        self._end_runs(disturbed=True)
        self._register()

    def disturb(self) -> None:
        """It is paused: it will go on later, believing all is well."""
        for run in self.runs:
            run.disturbed = run.disturbed or run.ended_ms is None

    def _register(self) -> None:
        world = self.world
        self.sender = Sender(world)
        self.boot = boot_id(world.now.wall_ms, world.rng.randbytes(10))
        self.position = len(world.logs[place(TopicKind.WORK, self.lane)])
        self.epoch, self.registered = 0, False
        self.held: dict[AttemptId, InHand] = {}
        self.seen: set[AttemptId] = set()
        self.lease_ms, self.reporting = world.now_ms, False
        self._report()

    def _report(self) -> None:
        held = tuple(
            Held(
                attempt=h.run.attempt,
                id=h.run.request.id,
                tenant=h.run.request.tenant,
                tier=h.run.request.tier,
                origin=h.run.origin,
                attempts=h.run.attempts,
                charge=h.run.charge,
                tokens=3,
                running=True,
            )
            for h in self.held.values()
        )
        report = Report(
            worker=self.name,
            boot=self.boot,
            epoch=self.epoch,
            lane=self.lane,
            position=self.position,
            limit=2,
            held=held,
        )
        self.reporting = True
        self.sender.send(message_of(WORKERS, report), ("report", self.world.now_ms))

    def turn(self) -> None:
        """One turn of its loop."""
        now = self.world.now_ms
        for confirmation in self.sender.take():
            self._confirmed(confirmation)
        if not self.registered:
            return
        if not self.reporting and now - self.lease_ms >= 500:
            self._report()
        if now - self.lease_ms > 30_000 or not self._obey():
            self._end_runs(disturbed=True)
            self._register()
            return
        for attempt, held in list(self.held.items()):
            if now >= held.finish_ms and not held.sent:
                held.ran.ended_ms = held.ran.ended_ms or now
                held.sent = True
                self._send_next(attempt)

    def _confirmed(self, confirmation: Confirmation) -> None:
        kind, value = cast("tuple[str, Any]", confirmation.token)
        if kind == "report":
            self.reporting = False
            if confirmation.offset is not None:
                self.lease_ms = value
                if not self.registered and self.world.out_until[STATE] <= self.world.now_ms:
                    owners = [decode(TopicKind.STATE, r.header) for r in self.world.logs[STATE]]
                    self.epoch = max((o.epoch for o in owners if isinstance(o, Ownership)), default=0)
                    self.registered = True
            if not self.registered:
                self._report()
        elif value in self.held:
            if confirmation.offset is not None:
                self.held[value].todo.pop(0)
            self._send_next(value)

    def _send_next(self, attempt: AttemptId) -> None:
        todo = self.held[attempt].todo
        if todo:
            self.sender.send(todo[0], ("record", attempt))
        else:
            del self.held[attempt]

    def _obey(self) -> bool:
        for received in self.world.read(place(TopicKind.WORK, self.lane), self.position):
            self.position = received.offset + 1
            command = decode(TopicKind.WORK, received.header)
            match command:
                case Buried(boot=self.boot) if command.epoch >= self.epoch:
                    return False
                case Fence() if command.epoch > self.epoch:
                    self.epoch = command.epoch
                    self._report()
                case Run(boot=self.boot) if command.epoch >= self.epoch and command.attempt not in self.seen:
                    self.epoch = command.epoch
                    self._start(command)
                case Cancel(boot=self.boot) if command.epoch >= self.epoch:
                    self._cancel(command)
                case _:
                    pass
        return True

    def _start(self, run: Run) -> None:
        world, now = self.world, self.world.now_ms
        lapsed = now - self.lease_ms > 2_500
        fails = self.retries and world.faulty and world.rng.random() < 0.3
        ran = Ran(run.request.id, now, now if lapsed else None)
        if not lapsed:
            self.runs.append(ran)
        self.seen.add(run.attempt)
        todo = (
            self._retry_at(run, started=not lapsed) if lapsed or fails else self._done(run, Status.SUCCEEDED)
        )
        finish = now if lapsed else now + world.rng.randint(50, self.longest_ms)
        self.held[run.attempt] = InHand(run, finish, todo, ran)

    def _cancel(self, cancel: Cancel) -> None:
        held = self.held.get(cancel.attempt)
        if held is not None and not held.sent:
            both = self._done(held.run, Status.CANCELLED)
            held.todo = both[1:] if cancel.reason is CancelReason.SUPERSEDED else both
            held.finish_ms = self.world.now_ms

    def _done(self, run: Run, status: Status) -> list[Message]:
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
            http_status=200 if status is Status.SUCCEEDED else 499,
            accepted_ms=request.accepted_ms,
            gateway=0,
            model="m",
            route="/v1/chat/completions",
            payload=Payload(size=0),
            worker=self.boot,
        )
        record = self._attempt(
            run, Verdict.DONE, status=status, usage=Usage(prompt_tokens=5, completion_tokens=7)
        )
        return [message_of(place(TopicKind.RESULTS, request.partition), result), record]

    def _retry_at(self, run: Run, *, started: bool) -> list[Message]:
        kind = FailureKind.BACKEND_ERROR if started else FailureKind.WORKER_NOT_LEASED
        return [self._attempt(run, Verdict.RETRY_AT, failure=Failure(kind=kind), started=started)]

    def _attempt(self, run: Run, verdict: Verdict, **more: object) -> Message:
        record = AttemptRecord(
            id=run.request.id,
            tenant=run.request.tenant,
            tier=run.request.tier,
            origin=run.origin,
            attempt=run.attempt,
            attempts=run.attempts,
            verdict=verdict,
            charge=run.charge,
            **more,  # type: ignore[arg-type]
        )
        return message_of(place(TopicKind.ATTEMPTS, run.request.partition), record)

    def _end_runs(self, *, disturbed: bool) -> None:
        for run in self.runs:
            if run.ended_ms is None:
                run.ended_ms, run.disturbed = self.world.now_ms, disturbed


Process = SimScheduler | SimWorker
