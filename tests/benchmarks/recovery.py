"""How long until work goes on after kill -9, with the brokers' stock settings and the protocol's own periods.

    make recovery            or: python -m tests.benchmarks.recovery [TRIALS]

Kills a busy worker, the owning scheduler and a result-delivery, TRIALS times each (3), then each of three brokers in turn,
under load, and prints each figure against its limit; exit status 1 when one is missed. A killed process stays dead until its
figure is there. The machine's speed is in all of them: run it where nothing else runs.
"""

import asyncio
import random
import re
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from headrace.devkit.probes import http_answers, wait_until
from tests.benchmarks.recovery_times import (
    WATCH_S,
    Submit,
    longest_stall,
    longest_trouble,
    next_released,
    taken_up,
)
from tests.benchmarks.saying import say
from tests.support.callers import chat_body
from tests.support.checker.history import Record
from tests.support.drill.evidence import log_of, starts_of
from tests.support.drill.plan import BROKERS, DELIVERIES, WORKERS
from tests.support.drill.stage import Stage, new_folder, staged
from tests.support.drill.striking import Striker
from tests.support.entry import count_of, parser_of
from tests.support.stacks import WEIGHTS

RATE, BODY_MARK, TOKENS = 16, " [[fault:slow:30]]", 20
"""Requests a second, of 0.6 s each: three or so are always in each worker's hands, and none waits long without a fault."""
PATIENCE = timedelta(seconds=90)
SUBMIT_TIMEOUT = aiohttp.ClientTimeout(total=30)
CONTROLLER = re.compile(r"Becoming the active controller at epoch (\d+)")
STOCK: dict[str, str] = {}
WORKER, SCHEDULER, DELIVERY, DOOR = "worker", "scheduler", "result-delivery", "submits while a broker is gone"
LIMITS_S = {WORKER: 5.0, SCHEDULER: 6.0, DELIVERY: 8.0, DOOR: 12.0}


def now_ms() -> int:
    """Unix milliseconds, as records have them."""
    return time.time_ns() // 1_000_000


@dataclass
class Load:
    """Submits at an even pace, in a thread of its own, until it is told to stop."""

    urls: list[str]
    keys: dict[str, str]
    submits: list[Submit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when all submits have their answer."""
        self._stop.set()
        self._thread.join()

    async def _run(self) -> None:
        dice, number = random.Random(1), 0  # noqa: S311 - an even load, not a secret
        async with aiohttp.ClientSession(timeout=SUBMIT_TIMEOUT) as session, asyncio.TaskGroup() as group:
            while not self._stop.is_set():
                number += 1
                group.create_task(self._one(session, dice.choice(list(WEIGHTS)), number))
                await asyncio.sleep(1 / RATE)

    async def _one(self, session: aiohttp.ClientSession, tenant: str, number: int) -> None:
        body = chat_body(f"recovery {number}{BODY_MARK}", model="fake", max_tokens=TOKENS)
        url, headers = self.urls[number % len(self.urls)], {"Authorization": f"Bearer {self.keys[tenant]}"}
        began_ms, status, request = now_ms(), 0, ""
        try:
            async with session.post(f"{url}/v1/requests", json=body, headers=headers) as answer:
                document = msgspec.json.decode(await answer.read())
                status, request = answer.status, str(document.get("id", ""))
        except (aiohttp.ClientError, TimeoutError):
            status = 0
        self.submits.append(Submit(began_ms, now_ms(), status, request))


@dataclass(frozen=True, slots=True)
class Outage:
    """A broker's death and return, Unix ms. `led_s`: until each partition had a living leader, which is Kafka's own doing."""

    at_ms: int
    mended_ms: int
    led_s: float
    controller: bool

    def __str__(self) -> str:
        return f"{self.led_s:.1f}{' (the controller)' if self.controller else ''}"


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, in seconds, a trial each."""

    name: str
    seconds: list[float]
    note: str = ""

    @property
    def held(self) -> bool:
        """Whether the worst is within the limit, and anything was measured."""
        return bool(self.seconds) and max(self.seconds) <= LIMITS_S[self.name]

    def __str__(self) -> str:
        each = ", ".join(f"{second:.1f}" for second in self.seconds) or "nothing was measured"
        return f"{'held  ' if self.held else 'MISSED'}  {self.name}: {each} s, at most {LIMITS_S[self.name]:.0f} s{self.note}"


@dataclass
class Recovery:
    """All trials on one stage. `broken`: what else went wrong, a sentence each."""

    stage: Stage
    trials: int
    broken: list[str] = field(default_factory=list)

    def run(self) -> list[Figure]:
        """The figures, in the order of LIMITS_S."""
        striker = Striker(self.stage, say)
        load = Load(self.stage.stack.urls, self.stage.stack.keys)
        time.sleep(WATCH_S / 2)
        kills = {
            WORKER: [self._kill(WORKERS[n % len(WORKERS)]) for n in range(self.trials)],
            SCHEDULER: [self._kill(striker.owner()) for _ in range(self.trials)],
            DELIVERY: [self._kill(DELIVERIES[n % 2]) for n in range(self.trials)],
        }
        pids = self._pids()
        outages = [self._kill_broker(striker, node) for node in range(1, len(BROKERS) + 1)]
        load.stop()
        striker.await_back()
        self.broken += striker.broken
        if pids != self._pids() or not all(service.alive for service in self.stage.stack.services.values()):
            self.broken.append("a process ended when a broker was killed")
        return self._figures(load, kills, outages)

    def _pids(self) -> list[int]:
        return [service.pid for service in self.stage.stack.services.values()]

    def _kill(self, name: str) -> tuple[str, int]:
        """Kills, watches, starts again; who it was, and when."""
        service = self.stage.stack.services[name]
        say(f"kill -9 {name}")
        at_ms = now_ms()
        service.kill()
        time.sleep(WATCH_S)
        service.launch()
        if not wait_until(lambda: http_answers(service.health_port, "/readyz"), PATIENCE):
            self.broken.append(f"{name} isn't ready {PATIENCE} after its start")
        time.sleep(WATCH_S / 2)
        return name, at_ms

    def _kill_broker(self, striker: Striker, node: int) -> Outage:
        """Kills, watches until its partitions must have answered, starts it again."""
        say(f"kill -9 broker {node}")
        at_ms, controller = now_ms(), self._controller() == node
        self.stage.cluster.kill(node)
        led_s = self._led_again(node, at_ms)
        time.sleep(max(0.0, LIMITS_S[DOOR] + WATCH_S / 2 - (now_ms() - at_ms) / 1000))
        self.stage.cluster.restart(node)
        striker.await_in_sync()
        time.sleep(WATCH_S / 2)
        return Outage(at_ms, now_ms(), led_s, controller)

    def _controller(self) -> int:
        """The node that says that it became the active controller last."""
        epochs = {
            node: max(map(int, CONTROLLER.findall(self.stage.cluster.log_path(node).read_text())), default=-1)
            for node in range(1, len(BROKERS) + 1)
        }
        return max(epochs, key=lambda node: epochs[node])

    def _led_again(self, node: int, at_ms: int) -> float:
        """Seconds from the kill until no partition is led by this node or by none, as the brokers left tell."""
        admin = AdminClient({"bootstrap.servers": self.stage.cluster.bootstrap})

        def led() -> bool:
            with suppress(KafkaException):
                topics = admin.list_topics(timeout=2).topics.values()
                leaders = {part.leader for topic in topics for part in topic.partitions.values()}
                return leaders.isdisjoint({node, -1})
            return False

        if not wait_until(led, PATIENCE):
            self.broken.append(f"partitions have no leader {PATIENCE} after broker {node} was killed")
        return (now_ms() - at_ms) / 1000

    def _figures(
        self, load: Load, kills: dict[str, list[tuple[str, int]]], outages: list[Outage]
    ) -> list[Figure]:
        accepted = {submit.id for submit in load.submits if submit.status == 202}
        if not wait_until(lambda: accepted <= {row["id"] for row in self._rows()}, PATIENCE):
            left = accepted - {row["id"] for row in self._rows()}
            self.broken.append(f"{len(left)} accepted requests didn't end, such as {sorted(left)[:3]}")
        rows, runs = self._rows(), self._log("work.main")
        spans = [(outage.at_ms, outage.mended_ms) for outage in outages]
        self._look_for_repeats(runs, spans)
        self._look_for_lies(load, spans)
        return [
            Figure(WORKER, [taken_up(runs, rows, at_ms, self._boots(name)) for name, at_ms in kills[WORKER]]),
            Figure(SCHEDULER, [next_released(rows, at_ms) for _, at_ms in kills[SCHEDULER]]),
            Figure(DELIVERY, [longest_stall(rows, at_ms) for _, at_ms in kills[DELIVERY]]),
            Figure(
                DOOR,
                [longest_trouble(load.submits, *span) for span in spans],
                note=f"; until Kafka by itself had led all partitions anew: {', '.join(map(str, outages))} s",
            ),
        ]

    def _rows(self) -> list[dict[str, Any]]:
        query = "SELECT id, attempts, dispatched_ms, finished_ms, committed_ms FROM results"
        return self.stage.database.rows(query)

    def _log(self, topic: str) -> list[Record]:
        return log_of(self.stage.cluster.bootstrap, self.stage.stack.prefix, topic)

    def _boots(self, worker: str) -> set[str]:
        reports = [each.record for each in self._log("workers.main") if each.record["type"] == "report"]
        return {record["boot"] for record in reports if record["worker"] == worker}

    def _look_for_repeats(self, runs: list[Record], spans: list[tuple[int, int]]) -> None:
        """A broker's death repeats no attempt and aborts none: each that an engine saw in its time has ended well."""
        seen = starts_of(self.stage.journals())
        failed = {
            tuple(each.record["attempt"])
            for each in self._log("attempts.main")
            if each.record["verdict"] != "done"
        }
        for each in runs:
            during = any(begin <= (each.at_ms or 0) <= end for begin, end in spans)
            key = (
                f"{each.record['request']['id']}-{each.record['attempt'][0]}.{each.record['attempt'][1]}"
                if (each.record["type"] == "run")
                else ""
            )
            if during and seen[key] and tuple(each.record["attempt"]) in failed:
                self.broken.append(f"{key} was aborted when a broker was killed")
            if during and seen[key] > 1:
                self.broken.append(f"{key} ran {seen[key]} times")

    def _look_for_lies(self, load: Load, spans: list[tuple[int, int]]) -> None:
        """While a broker is gone a submit is accepted or gets a 503, never anything else."""
        begin, end = spans[0][0], spans[-1][1]
        other = {s.status for s in load.submits if begin <= s.began_ms <= end} - {202, 503}
        if other:
            self.broken.append(f"submits were answered with {sorted(other)} while a broker was gone")


def main(trials: int) -> int:
    """Prints each figure; 1 when one is missed, or anything is lost."""
    folder = new_folder(None)
    say(f"logs in {folder}")
    with staged(folder, postgres=False, settings=STOCK) as stage:
        recovery = Recovery(stage, trials)
        figures = recovery.run()
    for line in (*figures, *(f"WRONG  {sentence}" for sentence in recovery.broken[:20])):
        say(str(line))
    return not all(figure.held for figure in figures) or bool(recovery.broken)


if __name__ == "__main__":
    sys.exit(main(count_of(parser_of(__spec__, __doc__), "trials", 3, "kills of each service")))
