"""A pool whose backends take so much in a minute each. Used by tests of their ceilings."""

from random import Random
from typing import Any

from headrace.bus.messages import message_of
from headrace.contracts.codec import decode
from headrace.contracts.commands import Run
from headrace.contracts.ids import boot_id
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import Policy
from headrace.contracts.reports import Allowed, PerMinute, Report
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Usage
from headrace.scheduler.core.pool_state import PoolState
from tests.support.scheduler.case import Case
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import WALL, place
from tests.support.scheduler.reports import held_of

SIXTY = PerMinute(requests=60)


class Pool:
    """An owner and hand-driven workers, each of a backend that answers after a while."""

    def __init__(self, takes: dict[str, PerMinute | None], policy: Policy | None = None) -> None:
        self.case, self.takes, self.limit = Case(policy), takes, 40
        self.boots = {name: boot_id(WALL + number, bytes(10)) for number, name in enumerate(takes)}
        self.held: dict[str, dict[str, tuple[Run, int]]] = {name: {} for name in takes}
        self.started: dict[str, list[int]] = {name: [] for name in takes}
        self.usage = Usage(prompt_tokens=60, completion_tokens=40)
        self.took_ms = (100, 900)
        self.allowed: dict[str, Allowed | None] = {}
        self._read, self._dice = 0, Random(1)  # noqa: S311 - a run that can be had again
        self.case.run()
        self.report()
        self.case.run(100)

    @property
    def state(self) -> PoolState:
        core = self.case.owner.core
        assert core is not None
        return core.state

    def report(self) -> None:
        core = self.case.owner.core
        position = len(self.case.world.logs[place(TopicKind.WORK, 0)])
        for name, boot in self.boots.items():
            held = tuple(held_of(run) for run, _ in self.held[name].values())
            report = Report(
                worker=name, boot=boot, epoch=1 if core is None else core.state.epoch, lane=0,
                position=position, limit=self.limit, held=held, per_minute=self.takes[name],
                allowed=self.allowed_of(name),
            )  # fmt: skip
            self.case.world.append(message_of(place(TopicKind.WORKERS), report))

    def allowed_of(self, name: str) -> Allowed | None:
        """What a backend said is left."""
        return self.allowed.get(name)

    def live(self, seconds: float) -> None:
        for number in range(round(seconds * 10)):
            self.case.run(100)
            self._take()
            if number % 5 == 0:
                self.report()

    def _take(self) -> None:
        commands, now_ms = self.case.commands(Run), self.case.world.now_ms
        of_boot = {boot: name for name, boot in self.boots.items()}
        for run in commands[self._read :]:
            if run.boot in of_boot:
                name = of_boot[run.boot]
                self.started[name].append(now_ms)
                self.held[name][run.request.id] = run, now_ms + self._dice.randint(*self.took_ms)
        self._read = len(commands)
        for name, held in self.held.items():
            for run, ends_ms in list(held.values()):
                if ends_ms <= now_ms:
                    del held[run.request.id]
                    self.case.answer(
                        run, Verdict.DONE, status=Status.SUCCEEDED, usage=self.usage, worker=name,
                        boot=self.boots[name],
                    )  # fmt: skip

    def taken_over(self) -> None:
        """Another replica comes, which knows only what the logs say."""
        setting = self.case.owner.setting
        self.case.owner.crash()
        self.case.owner = SimScheduler(self.case.world, 0)
        self.case.owner.setting = setting

    def counts(self) -> dict[str, int]:
        return {name: len(at) for name, at in self.started.items()}


def kept(pool: Pool) -> list[Any]:
    """What checkpoints last said of the worker's backend."""
    log = pool.case.world.logs[place(TopicKind.STATE)]
    return [decode(TopicKind.STATE, each.header) for each in log if each.key == b"backend_paced/api"]
