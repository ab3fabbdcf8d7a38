"""One seed: the whole world, its faults, its rest and its verdict. Called by tests.simulation, and by the mutants.

Invariant: a run is a function of its seed and of the product's code.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

import structlog

from headrace.contracts.checkpoints import Finished
from headrace.contracts.codec import decode
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window
from tests.simulation.world.callers import Callers
from tests.simulation.world.database import Database
from tests.simulation.world.deliverers import SimDeliverer
from tests.simulation.world.extras import Extras, extras_of
from tests.simulation.world.faults import Faults, Rates
from tests.simulation.world.gateways import SimGateway
from tests.simulation.world.group import SimGroup
from tests.simulation.world.judge import judge
from tests.simulation.world.looper import Looper
from tests.simulation.world.operators import Operator
from tests.simulation.world.process import Process
from tests.simulation.world.schedulers import SimScheduler
from tests.simulation.world.stage import AWAY, GATEWAYS, Stage
from tests.simulation.world.workers import SimWorker
from tests.support.scheduler.pure import POOL

END_MS, EVENTS_MOST = 150_000, 600_000
_LOOK_MS = 250
_SMALL = SpillBounds(records=2, size=1_000_000, reach=1, run=4, gap=2, under_way=8)
"""As small as the worlds: two requests of a tenant are a flood."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run came to. `bad`: each violation in a sentence. `notes`: its history."""

    seed: int
    bad: list[str]
    seen: Counter[str]
    notes: list[tuple[int, str, str]] = field(repr=False)
    ended_ms: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class Cast:
    """Who takes part. `worker_faults`: workers are killed and paused, too; `fail_share`: how many calls fail; `cache_tokens`:
    the size of each engine's cache, where its metrics tell it; `spill`: what owners keep of a tenant; `away`: workers of a
    second pool, which the first falls back on; 0: there is none.
    """

    schedulers: int = 2
    workers: int = 1
    limit: int = 2
    window: int = 4
    longest_ms: int = 3_000
    fail_share: float = 0.0
    cache_tokens: int | None = None
    spill: SpillBounds | None = None
    drain_grace: timedelta = timedelta(seconds=30)
    loopers: int = 0
    away: int = 0
    worker_faults: bool = False
    faults_end_ms: int = 16_000


def cast_of(seed: int, rng: Random) -> Cast:
    """Every second seed has faults of workers, every third failing calls, every fifth long ones, every seventh a looper;
    the engines of every fourth have caches that soon are full; the owners of every third spill what they can.
    """
    long = seed % 5 == 0
    return Cast(
        schedulers=rng.choice((2, 2, 3)),
        workers=rng.randint(1, 3),
        limit=rng.choice((1, 2, 3)),
        window=rng.choice((2, 4, 8)),
        longest_ms=10_000 if long else 3_000,
        fail_share=0.25 if seed % 3 == 0 else 0.0,
        cache_tokens=30 if seed % 4 == 1 else None,
        spill=_SMALL if seed % 3 == 1 else None,
        drain_grace=timedelta(seconds=rng.choice((1, 3, 30))),
        loopers=int(seed % 7 == 0),
        worker_faults=seed % 2 == 0,
        faults_end_ms=30_000 if long else 16_000,
    )


class World:
    """All that there is in one run."""

    def __init__(self, seed: int, cast: Cast | None = None) -> None:
        self.seed = seed
        self.extras = extras = extras_of(seed) if cast is None else Extras(away=cast.away)
        self.stage = stage = Stage(seed, extras.policy)
        self.database = Database(stage)
        self.cast = cast = cast or replace(cast_of(seed, stage.rng), away=extras.away)
        self.pools = tuple(stage.policy.pools)
        names = tuple(f"scheduler{n}" for n in range(cast.schedulers))
        window = Window(high_records=cast.window, low_records=1)
        self.schedulers = [SimScheduler(stage, name, names, window, cast.spill) for name in names]
        others = tuple(f"{AWAY}-{name}" for name in names) if cast.away else ()
        self.away_schedulers = [SimScheduler(stage, n, others, window, cast.spill, AWAY) for n in others]
        pools = [POOL] * cast.workers + [AWAY] * cast.away
        self.workers = [
            SimWorker(
                stage, f"worker{number}", limit=cast.limit, longest_ms=cast.longest_ms, pool=pool,
                fail_share=cast.fail_share, drain_grace=cast.drain_grace, cache_tokens=cast.cache_tokens,
            )
            for number, pool in enumerate(pools)
        ]  # fmt: skip
        group = SimGroup()
        self.deliverers = [SimDeliverer(stage, f"delivery{n}", group, self.database) for n in range(2)]
        self.gateways = [SimGateway(stage, number, self.database) for number in range(GATEWAYS)]
        self.loopers = [Looper(stage, "looper") for _ in range(cast.loopers)]
        self.callers = Callers(stage, self.gateways, self.database, hints=extras.hints)
        self.operator = Operator(stage, self.callers, names)
        self.faults_end_ms = cast.faults_end_ms

    def processes(self) -> list[Process]:
        """All of them."""
        schedulers = [*self.schedulers, *self.away_schedulers]
        return [*schedulers, *self.workers, *self.deliverers, *self.gateways, *self.loopers]

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
        if self.away_schedulers:
            faults.befall(
                self.away_schedulers, Rates(rng.choice(rates), rng.choice((0, 5)), rng.choice(rates))
            )
        faults.befall(self.deliverers, Rates(rng.choice(rates), rng.choice(rates), rng.choice(rates)))
        faults.befall(self.gateways, Rates(rng.choice((0, 6)), rng.choice((0, 4))))
        if self.cast.worker_faults:
            faults.befall(self.workers, Rates(rng.choice(rates), rng.choice(rates)))
        faults.befall(self.workers, Rates(stops=rng.choice((0, 0, 5, 10))))
        self.callers.plan(rng.randint(8, 20), self.faults_end_ms - 3_000)
        self.operator.plan(self.extras.orders, self.faults_end_ms)

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
        if any(owner is None or owner.state.tracked or len(owner.state.held) for owner in self.owners()):
            return False
        return not self.unfinished() and not self.undelivered()

    def undelivered(self) -> list[str]:
        """Which logs the database hasn't got to the end of, and whether it has something to tell."""
        stands = self.database.stands()
        kinds = ("requests", "results", "attempts")
        logs = (log for p, log in self.stage.broker.logs.items() if p.topic.split(".")[1] in kinds)
        left = [
            f"{log.place.topic}/{log.place.partition}" for log in logs if stands.get(log.place, 0) < log.end
        ]
        return [*left, "the outbox"] if self.database.has_unsent() else left

    def owner(self) -> PoolCore | None:
        """Who owns the pool and is past its gate. A zombie may believe so, too: of a lesser epoch."""
        return _owner_among(self.schedulers)

    def owners(self) -> list[PoolCore | None]:
        """The same of each pool."""
        return [_owner_among(each) for each in (self.schedulers, self.away_schedulers) if each]

    def unfinished(self) -> list[str]:
        """Which request logs aren't finished to their end in the newest checkpoint."""
        found, logs = dict[tuple[str, int], int](), self.stage.broker.logs
        states = [log.entries for p, log in logs.items() if ".state." in f".{p.topic}"]
        for entry in (entry for entries in states for entry in entries):
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


def _owner_among(schedulers: list[SimScheduler]) -> PoolCore | None:
    cores = [s.core for s in schedulers if s.alive and s.core is not None and s.core.state.open]
    return max(cores, key=lambda core: core.state.epoch, default=None)


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
