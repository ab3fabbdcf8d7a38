"""One seed: the whole world, its faults, its rest and its verdict. Called by tests.simulation, and by the mutants.

Invariant: a run is a function of its seed and of the product's code.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from headrace.contracts.checkpoints import Finished
from headrace.contracts.codec import decode
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.decisions.when_to_pause import Window
from tests.simulation.world.callers import Callers
from tests.simulation.world.database import Database
from tests.simulation.world.deliverers import SimDeliverer
from tests.simulation.world.faults import Faults, Rates
from tests.simulation.world.gateways import SimGateway
from tests.simulation.world.group import SimGroup
from tests.simulation.world.judge import judge
from tests.simulation.world.looper import Looper
from tests.simulation.world.process import Process
from tests.simulation.world.schedulers import SimScheduler
from tests.simulation.world.stage import GATEWAYS, Stage, place
from tests.simulation.world.workers import SimWorker

END_MS, EVENTS_MOST = 150_000, 600_000
_LOOK_MS = 250


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run came to. `bad`: each violation in a sentence. `notes`: its history."""

    seed: int
    bad: list[str]
    seen: Counter[str]
    notes: list[tuple[int, str, str]] = field(repr=False)
    ended_ms: int = 0
    events: int = 0


class World:
    """All that there is in one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.stage = stage = Stage(seed)
        self.database = Database(stage)
        rng = stage.rng
        self.worker_faults, self.retries, self.long = seed % 2 == 0, seed % 3 == 0, seed % 5 == 0
        names = tuple(f"scheduler{n}" for n in range(rng.choice((2, 2, 3))))
        window = Window(high_records=rng.choice((2, 4, 8)), low_records=1)
        self.schedulers = [SimScheduler(stage, name, names, window) for name in names]
        self.workers = [self._worker(number) for number in range(rng.randint(1, 3))]
        group = SimGroup()
        self.deliverers = [SimDeliverer(stage, f"delivery{n}", group, self.database) for n in range(2)]
        self.gateways = [SimGateway(stage, number, self.database) for number in range(GATEWAYS)]
        self.loopers = [Looper(stage, "looper")] if seed % 7 == 0 else []
        self.callers = Callers(stage, self.gateways, self.database)
        self.faults_end_ms = 30_000 if self.long else 16_000

    def processes(self) -> list[Process]:
        """All of them."""
        return [*self.schedulers, *self.workers, *self.deliverers, *self.gateways, *self.loopers]

    def set_up(self) -> None:
        """Starts everybody and plans what the seed has in store."""
        stage, rng = self.stage, self.stage.rng
        for process in self.processes():
            stage.clockwork.at(rng.randint(0, 50), process.start)
        faults = Faults(stage, self.database, self.faults_end_ms)
        faults.weather()
        rates = (0, 0, 4, 8, 14)
        faults.befall(
            self.schedulers, Rates(rng.choice((4, 10, 20)), rng.choice((0, 5, 10)), rng.choice(rates))
        )
        faults.befall(self.deliverers, Rates(rng.choice(rates), rng.choice(rates), rng.choice(rates)))
        faults.befall(self.gateways, Rates(rng.choice((0, 6)), rng.choice((0, 4))))
        if self.worker_faults:
            faults.befall(self.workers, Rates(rng.choice(rates), rng.choice(rates)))
        faults.befall(self.workers, Rates(stops=rng.choice((0, 0, 5, 10))))
        self.callers.plan(rng.randint(8, 20), self.faults_end_ms - 3_000)

    def run(self) -> None:
        """Until everything has come to rest, or for too long."""
        clockwork, events, look_ms = self.stage.clockwork, 0, 0
        while clockwork.now_ms < END_MS and events < EVENTS_MOST:
            clockwork.turn()
            events += 1
            if clockwork.now_ms >= look_ms:
                look_ms = clockwork.now_ms + _LOOK_MS
                if clockwork.now_ms > self.faults_end_ms and self.at_rest():
                    break
        self.events = events
        if events >= EVENTS_MOST:
            self.stage.broken.append(
                f"{events} events in {clockwork.now_ms} ms: something goes round and round"
            )

    def at_rest(self) -> bool:
        """Whether nothing is left to do, and that stands in a checkpoint."""
        if self.callers.left or not self.callers.all_told:
            return False
        owner = self.owner()
        if owner is None or owner.state.tracked or len(owner.state.held):
            return False
        return not self.unfinished()

    def owner(self) -> PoolCore | None:
        """Who owns the pool and is past its gate. A zombie may believe so, too: of a lesser epoch."""
        cores = [s.core for s in self.schedulers if s.alive and s.core is not None and s.core.state.open]
        return max(cores, key=lambda core: core.state.epoch, default=None)

    def unfinished(self) -> list[str]:
        """Which request logs aren't finished to their end in the newest checkpoint."""
        found, logs = dict[tuple[str, int], int](), self.stage.broker.logs
        for entry in logs[place(TopicKind.STATE)].entries:
            if entry.received is not None:
                record = decode(TopicKind.STATE, entry.received.header)
                if isinstance(record, Finished):
                    found[record.topic, record.partition] = record.prefix
        requests = [log for p, log in logs.items() if ".requests." in f".{p.topic}"]
        return [
            f"{log.place.topic}/{log.place.partition}"
            for log in requests
            if found.get((log.place.topic, log.place.partition), 0) < log.end
        ]

    def _worker(self, number: int) -> SimWorker:
        rng = self.stage.rng
        return SimWorker(
            self.stage, f"worker{number}", limit=rng.choice((1, 2, 3)), longest_ms=10_000 if self.long else 3_000,
            fail_share=0.25 if self.retries else 0.0, drain_grace=timedelta(seconds=rng.choice((1, 3, 30))),
        )  # fmt: skip


@contextlib.contextmanager
def silent_logs() -> Iterator[None]:
    """The product's log lines go nowhere: the history is what is read."""
    kept = structlog.get_config()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(50),
        cache_logger_on_first_use=False,
        processors=[],
    )
    try:
        yield
    finally:
        structlog.configure(**kept)


def run_seed(seed: int) -> Verdict:
    """One run and its verdict."""
    with silent_logs():
        world = World(seed)
        world.set_up()
        world.run()
        bad = judge(world)
    stage = world.stage
    return Verdict(seed, bad, stage.seen, stage.notes, stage.now_ms, world.events)
