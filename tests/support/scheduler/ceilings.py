"""A pool whose tenants, or which itself, may spend so much in a minute. Used by tests of ceilings."""

from random import Random

import msgspec

from headrace.contracts.checkpoints import Debt, Paced
from headrace.contracts.commands import Run
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.outcomes import Verdict
from headrace.contracts.policy import CeilingPolicy, Policy
from headrace.contracts.reports import Held
from headrace.contracts.values import Usage
from headrace.scheduler.core import pacing
from headrace.scheduler.core.pool_state import PoolState
from tests.support.scheduler.case import Case
from tests.support.scheduler.processes import SimScheduler
from tests.support.scheduler.pure import policy
from tests.support.scheduler.reports import held_of

TOKENS = CeilingPolicy(tokens=600, at_once=100)
REQUESTS = CeilingPolicy(requests=6, at_once=2)


def with_ceilings(*of_a: CeilingPolicy, pool: tuple[CeilingPolicy, ...] = ()) -> Policy:
    """Of tenant a, and of the pool."""
    made = policy()
    tenants = {**made.tenants, "a": msgspec.structs.replace(made.tenants["a"], ceilings=of_a)}
    pools = {name: msgspec.structs.replace(each, ceilings=pool) for name, each in made.pools.items()}
    return msgspec.structs.replace(made, tenants=tenants, pools=pools)


def served(*of_a: CeilingPolicy, pool: tuple[CeilingPolicy, ...] = (), limit: int = 40) -> Case:
    made = Case(with_ceilings(*of_a, pool=pool))
    made.run()
    made.report(limit=limit)
    made.run(100)
    return made


def ran(case: Case) -> list[str]:
    return [run.request.tenant for run in case.commands(Run)]


def live(case: Case, seconds: int, *, limit: int = 40, epoch: int = 1, held: tuple[Held, ...] = ()) -> None:
    """The worker reports twice a second and ends all that it was given at once."""
    done = len(case.commands(Run)) if held else getattr(case, "done", 0)
    for _ in range(2 * seconds):
        case.run(500)
        for run in case.commands(Run)[done:]:
            used = Usage(prompt_tokens=60, completion_tokens=40)
            case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=used)
        done = len(case.commands(Run))
        case.report(limit=limit, epoch=epoch, held=held)
    case.done = done  # type: ignore[attr-defined]


def taken_over(case: Case) -> SimScheduler:
    """Another replica, which knows only what the logs say."""
    case.owner.crash()
    setting = case.owner.setting
    case.owner = SimScheduler(case.world, 0)
    case.owner.setting = setting
    return case.owner


def paced_ms(ahead_ms: int) -> int:
    """For how long a tenant is paced that owes 10 s, by the clock of an owner that is so far ahead of the last one's."""
    case = Case(with_ceilings(CeilingPolicy(requests=6, at_once=1)))
    state = PoolState.empty(case.owner.setting, 2)
    state.now = case.world.now
    debt = Debt(due_ms=state.now.wall_ms + 10_000 - ahead_ms, owed_ms=10_000)
    record = Paced(tenant="a", through=AttemptId(1, 5), debts={"requests/60000000": debt})
    pacing.owe(state, {"a": record, "gone": record, None: record})
    assert state.ceilings.knows("a", AttemptId(1, 5))
    assert not state.ceilings.knows("a", AttemptId(1, 6))
    return state.ceilings.closed.get("a", state.now.boot_ms) - state.now.boot_ms


class PacedWorker:
    """Takes what it is told to run, says twice a second what it holds, and ends each after a while."""

    def __init__(self, case: Case, dice: Random, usage: Usage, longest_ms: int = 2_000) -> None:
        self.case, self.dice, self.usage, self.longest_ms = case, dice, usage, longest_ms
        self.held: dict[AttemptId, tuple[Run, int]] = {}
        self.started_ms: list[int] = []
        self._read = 0

    def turn(self) -> None:
        now_ms, commands = self.case.world.now_ms, self.case.commands(Run)
        for run in commands[self._read :]:
            self.held[run.attempt] = run, now_ms + self.dice.randint(self.longest_ms // 10, self.longest_ms)
            self.started_ms.append(now_ms)
        self._read = len(commands)
        for run, ends_ms in list(self.held.values()):
            if ends_ms <= now_ms:
                self.case.answer(run, Verdict.DONE, status=Status.SUCCEEDED, usage=self.usage)
                del self.held[run.attempt]

    def report(self) -> None:
        core = self.case.owner.core
        held = tuple(held_of(run) for run, _ in self.held.values())
        self.case.report(limit=100, epoch=1 if core is None else core.state.epoch, held=held)
