"""One drill from its first request to its verdict. Called by the command line and by tests/chaos.

Invariant: nothing is ever restarted but what the drill itself killed or ended; the verdict is the checker's, and what must
hold at rest; a run that met too little is void, whatever it found.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from pathlib import Path

from headrace.devkit.probes import wait_until
from tests.support.checker.history import Accepted, History, Record, save
from tests.support.checker.judging import judge, told
from tests.support.checker.ledger import ledger_differs
from tests.support.drill.at_rest import bad_ends, loud_logs, some, unfinished, unrest, wrong_answers
from tests.support.drill.counting import Counted, counted
from tests.support.drill.evidence import LOGS, deaths_of, log_of, rows_of, runs_of
from tests.support.drill.load import Callers
from tests.support.drill.memory import Memory
from tests.support.drill.plan import planned
from tests.support.drill.stage import Stage, staged
from tests.support.drill.striking import Striker

ALL_ENDED, AT_REST, LOOK_AGAIN_S = timedelta(minutes=15), timedelta(seconds=90), 1.0
SAMPLE_S = 5.0


class Verdict(IntEnum):
    """The exit status of a drill."""

    HELD = 0
    VIOLATED = 1
    VOID = 3


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for. `seconds`: of blows and load; `lasting`: the first process of each service lives throughout."""

    seed: int
    kills: int
    requests: int
    seconds: float
    postgres: bool
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went. `wrong`: a sentence each."""

    wrong: list[str]
    counted: Counted

    @property
    def verdict(self) -> Verdict:
        """What is wrong is wrong, in a void run too."""
        if self.wrong:
            return Verdict.VIOLATED
        return Verdict.VOID if self.counted.lacking else Verdict.HELD


def drill(order: Order, folder: Path, say: Callable[[str], None]) -> Outcome:
    """Runs it. `folder` gets all logs, and history.jsonl for `python -m tests.support.checker`."""
    with staged(folder, postgres=order.postgres) as stage:
        return _Drill(order, stage, say).run()


@dataclass
class _Drill:
    order: Order
    stage: Stage
    say: Callable[[str], None]
    history: History = field(default_factory=History)
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self.striker = Striker(self.stage, self._say)
        dice = random.Random(self.order.seed)  # noqa: S311 - a seed is a history
        self.callers = Callers(self.stage.stack.urls, self.stage.stack.keys, self.history, dice)

    def run(self) -> Outcome:
        """Load and blows together, then rest, then the judgement."""
        asyncio.run(self._load_and_blows())
        self._say("no more blows")
        self.striker.await_back()
        self._say("all that come back are back")
        wait_until(self._all_ended, ALL_ENDED)
        unquiet = self._await_rest()
        self._gather()
        save(self.history, self.stage.folder / "history.jsonl")
        outcome = Outcome(self._wrong(unquiet), counted(self.history, self.striker.struck))
        self._tell(outcome)
        return outcome

    def _say(self, what: str) -> None:
        self.say(f"{time.monotonic() - self._began:6.1f} s  {what}")

    async def _load_and_blows(self) -> None:
        sampling = asyncio.create_task(self._sample())
        async with asyncio.TaskGroup() as group:
            group.create_task(self.callers.submit_all(self.order.requests, self.order.seconds))
            order = self.order
            for blow in planned(order.seed, order.kills, order.seconds, lasting=order.lasting):
                group.create_task(self.striker.strike(blow))
        sampling.cancel()

    async def _sample(self) -> None:
        while True:
            self.memory.sample(self.stage.stack.services)
            await asyncio.sleep(SAMPLE_S)

    def _all_ended(self) -> bool:
        ended = {row["id"] for row in self.stage.database.rows("SELECT id FROM results")}
        time.sleep(LOOK_AGAIN_S)
        return {each.id for each in self.history.of(Accepted)} <= ended

    def _await_rest(self) -> list[str]:
        """What is still at work when the patience is over."""
        unquiet: list[str] = []

        def at_rest() -> bool:
            nonlocal unquiet
            time.sleep(LOOK_AGAIN_S)
            unquiet = unrest(self._log("queue-state"), self._log("workers.main"), self.stage.limit)
            unquiet += unfinished(History([*self._requests(), *self._log("state.main")]))
            if not unquiet:
                unquiet += self._unbooked()
            return not unquiet

        wait_until(at_rest, AT_REST)
        return unquiet

    def _unbooked(self) -> list[str]:
        """Attempts that result-delivery hasn't read yet."""
        rows = rows_of(self.stage.database)
        return some("not in the ledger", ledger_differs(History([*self._log("attempts.main"), *rows])))

    def _requests(self) -> list[Record]:
        return [each for topic in LOGS if topic.startswith("requests") for each in self._log(topic)]

    def _log(self, topic: str) -> list[Record]:
        return log_of(self.stage.cluster.bootstrap, self.stage.stack.prefix, topic)

    def _gather(self) -> None:
        for topic in LOGS:
            self.history.add(*self._log(topic))
        work, workers = self._log("work.main"), self._log("workers.main")
        work.sort(key=lambda each: each.at_ms or 0)
        self.history.add(*runs_of(work, workers, self.stage.journals()), *deaths_of(workers, work))
        self.history.add(*rows_of(self.stage.database))

    def _wrong(self, unquiet: list[str]) -> list[str]:
        letters = [each.record for each in self.history.records("dlq")]
        return [
            *self.striker.broken,
            *told(judge(self.history)),
            *unquiet,
            *bad_ends(self.history),
            *wrong_answers(self.history),
            *(f"a dead letter: {letter}" for letter in letters[:5]),
            *loud_logs(self.stage.folder / "logs"),
        ]

    def _tell(self, outcome: Outcome) -> None:
        rows = self.history.rows("results") or ()
        self.say(
            f"accepted {len(self.history.of(Accepted))}, rows {len(rows)}, blows {len(self.striker.struck)}, "
            f"refused or broken off {self.callers.refused.most_common(6)}"
        )
        self.say(str(outcome.counted))
        for line in self.memory.told():
            self.say(f"memory of {line}")
