"""How full the owner keeps an engine's slots through a real Kafka, with 15 and with 2,000 ends a second.

    python -m tests.benchmarks.busy [ENDS_PER_SECOND ...]

A real broker, a scheduler process with production timings, and in this process a worker with an engine that only takes time:
16 slots and answers of a second, or 256 and of an eighth, more waiting than can be done, ends at random. Both find out how
much it holds by its gauges. Slots busy are counted by the engine's own clock, the trip from an attempt's record to the
next `run` in hand at each end. Exit status 1 when an aim is missed. Nothing else should run on the machine.
"""

import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from heapq import heappop, heappush
from pathlib import Path
from random import Random

import msgspec

from headrace.contracts.commands import Run
from headrace.contracts.ids import AttemptId
from headrace.contracts.reports import Gauges
from headrace.contracts.values import Times
from headrace.devkit.kafka import KafkaCluster
from tests.benchmarks.answering_worker import AnsweringWorker
from tests.benchmarks.filling import fill
from tests.benchmarks.releases import POLICY, TIER
from tests.benchmarks.saying import say
from tests.benchmarks.takeover import Bench
from tests.support.entry import one_of, parser_of
from tests.support.scheduler.live import Pool

LEARNS_S, MEASURED_S = 40.0, 30.0
SAMPLE_S = 1.0
SPREAD, MORE = 0.5, 1.3


@dataclass(frozen=True, slots=True)
class Aim:
    """Of so many ends a second: the slots, and how much of their time there should be work in them."""

    slots: int
    busy: float


AIMS = {15: Aim(16, 0.99), 2_000: Aim(256, 0.97)}


class Engine(AnsweringWorker):
    """A worker whose engine runs `slots` requests at a time, each for about `seconds`; the others wait in it."""

    def __init__(self, pool: Pool, slots: int, seconds: float) -> None:
        super().__init__(pool, limit=4 * slots, patience=timedelta(milliseconds=1))
        self._pool_clock, self._seconds, self._rng = pool.clock, seconds, Random(slots)  # noqa: S311
        self._free = deque([time.monotonic()] * slots)
        self._running: list[tuple[float, float, AttemptId, Run]] = []
        self._waiting: deque[tuple[float, Run]] = deque()
        self._gauges, self._sampled = Gauges(sample=0), 0.0
        self._sent: deque[float] = deque()
        self.since, self.busy_s, self.ended = time.monotonic(), 0.0, 0
        self.trips_ms: list[float] = []

    def turn(self) -> None:
        """As AnsweringWorker.turn; then what has ended meanwhile, at its own instant, however seldom anybody looks."""
        super().turn()
        self._begin()
        while self._running and self._running[0][0] <= time.monotonic():
            self._end(*heappop(self._running))
            self._begin()

    def took(self, run: Run) -> None:
        """It waits for a slot."""
        now = time.monotonic()
        if self._sent:
            self.trips_ms.append(1_000 * (now - self._sent.popleft()))
        self._waiting.append((now, run))

    def gauges(self) -> Gauges:
        """A new sample each second."""
        now = time.monotonic()
        if now - self._sampled >= SAMPLE_S:
            self._sampled = now
            sample, running = self._gauges.sample + 1, len(self._running)
            self._gauges = Gauges(sample=sample, running=running, waiting=len(self._waiting))
        return msgspec.structs.replace(self._gauges, age_ms=int(1_000 * (now - self._sampled)))

    def forget(self) -> None:
        """Measure from now on."""
        self.since, self.busy_s, self.ended = time.monotonic(), 0.0, 0
        self._sent.clear()
        self.trips_ms.clear()

    def busy(self) -> float:
        """How much of the slots' time there was work in them since then."""
        now = time.monotonic()
        running = sum(now - max(began, self.since) for _, began, _, _ in self._running)
        slots = len(self._running) + len(self._free)
        return (self.busy_s + running) / (slots * (now - self.since))

    def _begin(self) -> None:
        while self._free and self._waiting:
            came, run = self._waiting.popleft()
            began = max(self._free.popleft(), came)
            lasts = self._seconds * self._rng.uniform(1 - SPREAD, 1 + SPREAD)
            heappush(self._running, (began + lasts, began, run.attempt, run))

    def _end(self, ended: float, began: float, _attempt: AttemptId, run: Run) -> None:
        self._free.append(ended)
        self.busy_s += max(0.0, ended - max(began, self.since))
        self.ended += 1
        self._sent.append(time.monotonic())
        now = self._pool_clock.now().wall_ms - 1_000 * time.monotonic()
        began_ms, ended_ms = int(now + 1_000 * began), int(now + 1_000 * ended)
        self.answer(run, Times(started_ms=began_ms, first_token_ms=began_ms, finished_ms=ended_ms))


def run(bench: Bench, rate: int, aim: Aim) -> bool:
    """Whether the slots were as busy as they should be."""
    fill(bench.pool, bench.bootstrap, int(rate * (LEARNS_S + MEASURED_S) * MORE), tier=TIER)
    engine = Engine(bench.pool, aim.slots, aim.slots / rate)
    with bench.scheduler("one"):
        turn_for(engine, LEARNS_S)
        engine.forget()
        turn_for(engine, MEASURED_S)
        busy, ended, trips = engine.busy(), engine.ended / MEASURED_S, sorted(engine.trips_ms)
    engine.close()
    held, median, most = busy >= aim.busy, trips[len(trips) // 2], trips[len(trips) * 99 // 100]
    say(
        f"{'held  ' if held else 'MISSED'}  {aim.slots} slots, {ended:,.0f} ends a second: {100 * busy:.2f} % busy "
        f"(aim >= {100 * aim.busy:.0f} %); trip p50 {median:.1f} ms, p99 {most:.1f} ms"
    )
    return held


def turn_for(engine: Engine, seconds: float) -> None:
    """Let it work so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        engine.turn()


def main() -> int:
    """Prints a line for each rate; 1 when an aim is missed."""
    parser, held = parser_of(__spec__, __doc__), []
    known = one_of([str(rate) for rate in AIMS])
    parser.add_argument("rates", nargs="*", type=known, metavar="ENDS_PER_SECOND", help="default: both")
    for rate in [int(rate) for rate in parser.parse_args().rates] or AIMS:
        with tempfile.TemporaryDirectory() as folder, KafkaCluster(heap="1g") as broker:
            bench = Bench(broker.bootstrap, Path(folder), POLICY)
            held.append(run(bench, rate, AIMS[rate]))
            bench.close()
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
