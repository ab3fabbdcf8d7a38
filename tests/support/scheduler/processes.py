"""One scheduler around the real core in the world of scheduler.pure, turned by the test. Used by tests/unit/scheduler.

Whole histories with faults are tests/simulation.
"""

from collections.abc import Iterable

from headrace.bus.messages import Message, Place, Received
from headrace.bus.ports import END, START, Run, RunRead
from headrace.contracts.policy import Policy
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.core.restoring import read_state, restore
from headrace.scheduler.core.setting import Setting
from headrace.scheduler.core.step import Inputs, Notice
from headrace.scheduler.decisions.when_to_pause import Window
from headrace.scheduler.timings import Timings
from tests.support.scheduler.pure import NAMES, POOL, Sender, World, policy


def newest_of_each_key(records: Iterable[Received]) -> list[Received]:
    """The newest of each key in log order. A tombstone deletes its key; a record without a key belongs to no part.

    So the answer is the same whether or not the broker has compacted yet.
    """
    newest: dict[bytes, Received] = {}
    for record in records:
        if record.key is None:
            continue
        newest.pop(record.key, None)
        if record.value is not None:
            newest[record.key] = record
    return list(newest.values())


class SimScheduler:
    """One replica: stands by, claims, owns. `made`: a policy of more pools than one, of which it serves `pool`."""

    def __init__(self, world: World, rank: int, pool: str = POOL, made: Policy | None = None) -> None:
        self.world, self.rank = world, rank
        self.state_log = Place(NAMES.of(TopicKind.STATE, pool=pool), 0)
        self.setting = Setting(
            pool=pool,
            owner=f"scheduler{rank}",
            policy=made or policy(),
            names=NAMES,
            timings=Timings(),
            window=Window(high_records=6, low_records=3),
            random=world.rng.random,
        )
        self.core: PoolCore | None = None
        self.stopped: str | None = None
        self.notices: list[Notice] = []
        self.answers_runs = True
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
        self._grown, self._since = len(self.world.logs[self.state_log]), self.world.now_ms

    def _watch(self) -> None:
        log, now = self.world.logs[self.state_log], self.world.now_ms
        if len(log) > self._grown:
            self._grown, self._since = len(log), now
        silence = 2_000 * self.rank + (3_000 if log else 0)
        if now - self._since >= silence and self.world.out_until[self.state_log] <= now:
            self._claim()

    def _claim(self) -> None:
        world = self.world
        world.producer_epochs[self.state_log] += 1
        self.epoch, self.sender = world.producer_epochs[self.state_log], Sender(world)
        records = read_state(newest_of_each_key(world.logs[self.state_log]))
        self.core = PoolCore(restore(self.setting, records))
        self.at = {where: self._offset(where, at) for where, at in self.core.positions().items()}
        self.stalled = dict.fromkeys(self.at, 0)
        self.paused: set[Place] = set()
        self.asked: tuple[int, tuple[Place, ...]] | None = None
        self.runs: list[Run] = []
        self.commit: tuple[int, list[Message]] | None = (world.now_ms, self.core.claim(world.now))
        self.claimed = False

    def _offset(self, where: Place, position: int) -> int:
        return {START: 0, END: len(self.world.logs[where])}.get(position, position)

    def _own(self, core: PoolCore) -> None:
        committed = self._committed()
        if committed is None:
            self._stand_by()
            return
        self.claimed = self.claimed or committed
        if not self.claimed:
            return
        inputs = Inputs(
            self._read(), self.sender.take(), self._ends(), committed, read_again=self._read_again()
        )
        out = core.step(inputs, self.world.now)
        self.runs += out.read_again
        self.paused, self.stopped = out.paused, out.stop or self.stopped
        self.notices += out.notices
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
        if self.commit is None or self.world.now_ms < max(
            self.commit[0], self.world.out_until[self.state_log]
        ):
            return False
        if self.epoch != self.world.producer_epochs[self.state_log]:
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

    def _read_again(self) -> list[RunRead]:
        """Runs that were asked for, once their partitions are there and `answers_runs` says so."""
        if not self.answers_runs:
            return []
        came = [run for run in self.runs if self.world.out_until[run.place] <= self.world.now_ms]
        self.runs = [run for run in self.runs if run not in came]
        return [RunRead(run, self.world.read(run.place, run.first)[: run.stop - run.first]) for run in came]

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
