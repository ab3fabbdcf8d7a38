"""Kills and pauses everything under load, then judges: `python -m tests.support.drill --seed 7 --kills 12`.

Run by hand, and by tests/e2e with a few kills. Victims and instants come from the seed. Nothing is ever restarted but what
the drill itself killed or ended: whatever else is down in the end did not recover by itself.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import aiohttp

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.devkit.kafka import KafkaCluster
from headrace.devkit.probes import http_answers, wait_until
from headrace.devkit.served import EngineProcess
from tests.support.callers import Caller, chat_body
from tests.support.drill_judge import Evidence, judge
from tests.support.stacks import FAKE, WEIGHTS, rows_of

VICTIMS = (
    "scheduler", "scheduler", "scheduler-2", "inference-worker", "inference-worker-2", "result-delivery", "ingest",
    "engine", "broker",
)  # fmt: skip
ACTIONS = ("kill", "kill", "pause", "pause", "end")
PAUSES_S = (6, 6, 10, 40)
TIERS = ("interactive", "standard", "batch")
BACK, REST = timedelta(seconds=60), timedelta(seconds=180)


@dataclass(frozen=True, slots=True)
class Blow:
    """What happens to whom, `at_s` after the start; `gap_s` is how long it stays dead or paused."""

    at_s: float
    victim: str
    action: str
    gap_s: float


def planned(seed: int, kills: int, seconds: float, victims: tuple[str, ...] = VICTIMS) -> list[Blow]:
    """The blows of a seed, in order of time; none hits who is still down."""
    dice, free_at = random.Random(seed), dict.fromkeys(victims, 0.0)  # noqa: S311 a seed is a history
    blows: list[Blow] = []
    for at_s in sorted(dice.uniform(3, seconds) for _ in range(kills)):
        victim, action = dice.choice(victims), dice.choice(ACTIONS)
        if victim == "broker" and action == "end":
            action = "kill"
        gap_s = float(dice.choice(PAUSES_S)) if action == "pause" else dice.uniform(0, 3)
        if at_s >= free_at[victim]:
            blows.append(Blow(at_s, victim, action, gap_s))
            free_at[victim] = at_s + gap_s + 6
    return blows


@dataclass
class Drill:
    """One run. `journal` has what the callers were promised: every id that was answered with a 202."""

    stack: Stack
    broker: KafkaCluster
    engine: EngineProcess
    blows: list[Blow]
    seconds: float
    rate: float
    dice: random.Random
    evidence: Evidence = field(default_factory=Evidence)
    turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def run(self) -> None:
        """Load and blows together; returns when all is at rest, or the patience is over."""
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._load())
            for blow in self.blows:
                group.create_task(self._strike(blow))
        await asyncio.to_thread(self._await_back)
        await asyncio.to_thread(wait_until, self._all_ended, REST)
        await asyncio.sleep(4)  # the last reports and queue states

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", flush=True)  # noqa: T201

    async def _load(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(int(self.seconds * self.rate)):
                await asyncio.sleep(self.dice.expovariate(self.rate))
                group.create_task(self._submit(number))

    async def _submit(self, number: int) -> None:
        tenant, tier = self.dice.choice(list(WEIGHTS)), self.dice.choice(TIERS)
        marker, tokens = self.dice.choice(
            (("", 3), ("", 3), (" [[fault:slow:100]]", 15), (" [[fault:slow:150]]", 50))
        )
        body = chat_body(f"drill {number}{marker}", model="fake", max_tokens=tokens, stream=number % 3 == 0)
        cancelled = number % 11 == 0
        try:
            async with Caller(self.stack.url, self.stack.keys[tenant]) as caller:
                request_id = await caller.submit(body, tier=tier)
                self.evidence.accepted[request_id] = f"drill {number}"
                if cancelled:
                    await asyncio.sleep(self.dice.uniform(0, 3))
                    self.evidence.asked_to_cancel.add(request_id)
                    if await caller.cancel(request_id) == 202:
                        self.evidence.cancelled[request_id] = time.time()
        except (aiohttp.ClientError, AssertionError, TimeoutError) as error:
            self.evidence.refused.append(f"{type(error).__name__} {error}"[:160])

    async def _strike(self, blow: Blow) -> None:
        await asyncio.sleep(blow.at_s)
        async with self.turns[
            blow.victim
        ]:  # a loaded machine may need longer to bring it back than was planned
            self._say(f"{blow.action} {blow.victim} for {blow.gap_s:.1f} s")
            act, undo = self._means(blow)
            self.evidence.blows.append((time.time(), blow.victim, blow.action, blow.gap_s))
            await asyncio.to_thread(act)
            await asyncio.sleep(blow.gap_s)
            await asyncio.to_thread(undo)

    def _means(self, blow: Blow) -> tuple[Callable[[], object], Callable[[], object]]:
        if blow.victim == "broker":
            paused = blow.action == "pause"
            return (
                (self.broker.pause, self.broker.resume) if paused else (self.broker.kill, self.broker.restart)
            )
        process = self.engine.child if blow.victim == "engine" else self.stack.services[blow.victim].child
        launch = self.engine.launch if blow.victim == "engine" else self.stack.services[blow.victim].launch
        if blow.action == "pause":
            return process.pause, process.resume
        return (
            process.kill if blow.action == "kill" else lambda: process.terminate(timedelta(seconds=30))
        ), launch

    def _await_back(self) -> None:
        self._say("no more blows")
        for name, service in self.stack.services.items():
            if not wait_until(lambda port=service.health_port: http_answers(port, "/readyz"), BACK):  # type: ignore[misc]
                state = "runs" if service.alive else f"ended with {service.child.exit_status}"
                self.evidence.broken.append(f"{name} isn't ready, it {state}: {service.last_lines(3)}")
        self._say("all are ready" if not self.evidence.broken else "not all are ready")

    def _all_ended(self) -> bool:
        ended = {row[0] for row in rows_of(self.stack)}
        return self.evidence.accepted.keys() <= ended


def drill(
    seed: int, kills: int, seconds: float, rate: float, folder: Path, victims: tuple[str, ...] = VICTIMS
) -> list[str]:
    """Runs it; returns what is wrong, a sentence each."""
    with ExitStack() as started:
        broker = KafkaCluster(
            settings={"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "1000"}
        )
        started.callback(broker.stop)
        broker.start()
        journal = folder / "journal.jsonl"
        engine = EngineProcess("--journal", str(journal), log_path=folder / "engine.log")
        started.callback(engine.stop)
        engine.start()
        backends = [Backend("main", engine.url, "vllm", limit) for limit in (6, 4)]
        stack = Stack(
            folder=folder, policy=FAKE, backends=backends, bootstrap=broker.bootstrap, schedulers=2,
            extra={"inference_worker": {"drain_grace": "5s"}},
        )  # fmt: skip
        started.callback(stack.stop)
        stack.start()
        dice = random.Random(seed)  # noqa: S311 a seed is a history
        run = Drill(stack, broker, engine, planned(seed, kills, seconds, victims), seconds, rate, dice)
        asyncio.run(run.run())
        return judge(stack, run.evidence, journal)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Kill anything, then look whether every promise was kept.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--rate", type=float, default=6, help="requests a second")
    parser.add_argument("--victims", default=",".join(VICTIMS))
    parser.add_argument("--folder", type=Path, help="kept, for a look afterwards")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="headrace-drill-"))
    folder.mkdir(parents=True, exist_ok=True)
    if given.folder and any(folder.iterdir()):
        parser.error(f"{folder} isn't empty: positions of another run's log would be taken for this one's")
    wrong = drill(given.seed, given.kills, given.seconds, given.rate, folder, tuple(given.victims.split(",")))
    for sentence in wrong:
        print("WRONG", sentence)  # noqa: T201
    print(f"seed {given.seed}: {'VIOLATED' if wrong else 'held'}; logs in {folder}")  # noqa: T201
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
