"""What goes wrong, drawn from the seed: kills, pauses, clean stops, outages of partitions and of the database, clock jumps.

Made by world.run, which hands it the processes. Each run draws which kinds of faults it has, so that some runs have many of
one kind. Invariant: after `end_ms` nothing more goes wrong, and everybody who is dead is started again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.simulation.world.database import Database
from tests.simulation.world.process import Process
from tests.simulation.world.stage import Stage
from tests.simulation.world.workers import SimWorker

_PAUSES_MS = (1_000, 3_000, 6_000, 12_000)


@dataclass(frozen=True, slots=True)
class Rates:
    """Faults of one kind of process in 100 s: of each process."""

    kills: int = 0
    pauses: int = 0
    stops: int = 0


class Faults:
    """Plans them all at the beginning."""

    def __init__(self, stage: Stage, database: Database, end_ms: int) -> None:
        self._stage, self._database, self.end_ms = stage, database, end_ms
        self._processes: list[Process] = []
        stage.clockwork.at(end_ms, self._end)

    def befall(self, processes: Sequence[Process], rates: Rates) -> None:
        """These suffer so much."""
        self._processes += processes
        for process in processes:
            self._plan(rates.kills, partial(self._kill, process))
            self._plan(rates.pauses, partial(self._pause, process))
            self._plan(rates.stops, partial(self._stop, process))

    def weather(self) -> None:
        """Outages, losses and wrong clocks, each in some runs only."""
        rng, stage = self._stage.rng, self._stage
        if rng.random() < 0.6:
            self._plan(rng.choice((10, 25)), self._partition_out)
        if rng.random() < 0.2:
            self._plan(8, self._broker_out)
        if rng.random() < 0.4:
            self._plan(8, self._database_down)
        if rng.random() < 0.3:
            self._plan(10, self._clock_jumps)
        if rng.random() < 0.3:
            self._plan(10, self._backend_down)
        if rng.random() < 0.6:
            stage.weather.lost_share, stage.weather.topics_losing = 0.03, (".work.",)
        elif rng.random() < 0.3:
            stage.weather.lost_share, stage.weather.topics_losing = 0.02, (".",)
        stage.weather.late_share = rng.choice((0.0, 0.01, 0.05))
        stage.weather.lag_share = rng.choice((0.05, 0.3, 0.5))

    def _plan(self, rate: int, act: Callable[[], None]) -> None:
        rng, at_ms = self._stage.rng, 0.0
        while rate:
            at_ms += rng.expovariate(rate / 100_000)
            if at_ms >= self.end_ms:
                return
            self._stage.clockwork.at(int(at_ms), act)

    def _kill(self, process: Process) -> None:
        stage, rng = self._stage, self._stage.rng
        if not process.alive:
            return
        stage.saw(f"kill of {type(process).__name__}")
        if rng.random() < 0.5:
            process.kill_within(rng.randint(0, 12))
            stage.clockwork.after(1_000, process.kill)
            stage.clockwork.after(1_000 + rng.randint(100, 4_000), partial(self._start, process))
        else:
            process.kill()
            stage.clockwork.after(rng.randint(100, 5_000), partial(self._start, process))

    def _pause(self, process: Process) -> None:
        if process.alive and not process.paused:
            self._stage.saw(f"pause of {type(process).__name__}")
            process.pause(self._stage.rng.choice(_PAUSES_MS))

    def _stop(self, process: Process) -> None:
        if process.alive and not process.paused:
            self._stage.saw(f"stop of {type(process).__name__}")
            process.stop()
            self._stage.clockwork.after(self._stage.rng.randint(100, 4_000), partial(self._start, process))

    def _start(self, process: Process) -> None:
        """Again, once the old one is gone: a draining worker takes its time."""
        if not process.alive:
            process.start()
        elif isinstance(process, SimWorker) and process.stopping:
            self._stage.clockwork.after(500, partial(self._start, process))

    def _partition_out(self) -> None:
        stage = self._stage
        log = stage.rng.choice(list(stage.broker.logs.values()))
        log.out_until_ms = stage.now_ms + stage.rng.choice((700, 2_000, 5_000, 10_000))
        stage.saw("partition out")
        stage.note("broker", f"{log.place.topic}/{log.place.partition} is out until {log.out_until_ms}")

    def _broker_out(self) -> None:
        stage = self._stage
        until_ms = stage.now_ms + stage.rng.choice((500, 2_000, 9_000))
        for log in stage.broker.logs.values():
            log.out_until_ms = max(log.out_until_ms, until_ms)
        stage.saw("broker out")
        stage.note("broker", f"is out until {until_ms}")

    def _database_down(self) -> None:
        self._database.down_until_ms = self._stage.now_ms + self._stage.rng.choice((300, 2_000, 6_000))
        self._stage.saw("database down")
        self._stage.note("database", f"is down until {self._database.down_until_ms}")

    def _clock_jumps(self) -> None:
        process = self._stage.rng.choice(self._processes)
        by_ms = self._stage.rng.choice((-3_600_000, -600_000, -2_000, 2_000, 600_000, 3_600_000))
        process.clock.wall_off_ms += by_ms
        self._stage.saw("clock jump")
        self._stage.note(process.name, f"its wall clock jumps by {by_ms} ms")

    def _backend_down(self) -> None:
        workers = [p for p in self._processes if isinstance(p, SimWorker) and p.alive]
        if workers:
            worker = self._stage.rng.choice(workers)
            worker.backend.down_until_ms = self._stage.now_ms + self._stage.rng.choice((500, 3_000, 8_000))
            self._stage.saw("backend down")
            self._stage.note(worker.name, f"its backend doesn't answer until {worker.backend.down_until_ms}")

    def _end(self) -> None:
        stage = self._stage
        stage.weather.faulty = False
        stage.note("world", "the faults are over")
        for process in self._processes:
            stage.clockwork.after(3_000, partial(self._start, process))
