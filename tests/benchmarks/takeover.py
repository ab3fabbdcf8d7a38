"""How long a pool stands still when its owner goes, with a long backlog: warm, cold, moved.

    python -m tests.benchmarks.takeover [REQUESTS]

Real processes, a real broker, production timings. A backlog of REQUESTS (a million by default) of 1 KiB is written straight
into the log; a worker of this process obeys and answers. Before that, what a request takes of the owner's memory. Prints each
figure beside its limit; exits 1 when one is missed.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.contracts.commands import Run
from headrace.contracts.control import MovePool
from headrace.contracts.requests import RequestRecord
from headrace.devkit.kafka import KafkaCluster
from headrace.runtime.policy_file import load_policy
from tests.benchmarks.filling import TENANTS, fill
from tests.support.entry import count_of, parser_of
from tests.support.scheduler.live import Ownerships, Pool
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import POOL
from tests.support.scheduler.replica import Replica

POLICY = f"""
[pools.{POOL}.models]
m = "m"
[tiers.batch]
weight = 1
queue_timeout = "48h"
[tenants.a]
default_tier = "batch"
"""
NAMES = ("one", "two")
SLOTS = 16
WHOLE = 24_000
"""Of 64 tenants: nearly what the windows of eight partitions take, and nobody is over its bound."""


class Bench:
    """One backlog, one worker, schedulers as processes."""

    def __init__(self, bootstrap: str, folder: Path, rules: str = POLICY) -> None:
        self.bootstrap, self.folder = bootstrap, folder
        policy = folder / "policy.toml"
        policy.write_text(rules)
        self.pool = Pool(KafkaBus(KafkaConnection(bootstrap)), "takeover.", load_policy(policy))
        self.worker, self.owners = LiveWorker(self.pool, limit=SLOTS), Ownerships(self.pool)
        self.missed: list[str] = []

    def fill(self, count: int, tenants: Sequence[str] = TENANTS) -> list[RequestRecord]:
        """Write the backlog; the worker turns meanwhile."""
        return fill(
            self.pool, self.bootstrap, count, tier="batch", tenants=tenants, meanwhile=self.worker.turn
        )

    @contextmanager
    def scheduler(self, name: str) -> Iterator[Replica]:
        """One replica, until killed or ended."""
        replica = Replica(self.folder, self.bootstrap, self.pool.prefix, name, replicas=NAMES)
        try:
            yield replica
        finally:
            replica.end()

    def work_until(self, done: Callable[[], object], within_s: float = 90) -> float:
        """Let the worker obey and answer; seconds until `done`."""
        began = time.monotonic()
        while not done():
            self.worker.turn()
            if time.monotonic() - began > within_s:
                logs = [log.read_text()[-4_000:] for log in self.folder.glob("*.log")]
                raise SystemExit("\n".join([f"nothing for {within_s} s", *logs]))
        return time.monotonic() - began

    def runs_of(self, epoch: int) -> int:
        """How many attempts of this epoch have reached the worker."""
        return sum(isinstance(c, Run) and c.epoch == epoch for c in self.worker.commands)

    def say(self, what: str, value: float, unit: str, limit: float | None = None) -> None:
        """Print a figure, beside its limit."""
        beside = "" if limit is None else f"  (limit {limit:g} {unit})"
        sys.stdout.write(f"{what}: {value:.2f} {unit}{beside}\n")
        sys.stdout.flush()
        if limit is not None and value > limit:
            self.missed.append(what)

    def close(self) -> None:
        """Let go."""
        self.worker.close()
        self.owners.close()
        self.pool.close()


def next_epoch(bench: Bench) -> int:
    """The epoch of whoever follows now. Waits until the log is surely read to its end."""
    stands_by_for(bench, 1)
    last = bench.owners.last()
    return 1 if last is None else last.epoch + 1


def stands_by_for(bench: Bench, seconds: float) -> None:
    """Let a standby read ahead, while the owner works."""
    began = time.monotonic()
    bench.work_until(lambda: bench.owners.all() and time.monotonic() - began > seconds)


def memory(bench: Bench, owner: Replica, empty: float) -> None:
    """What a request takes that waits whole. `empty`: the owner's MiB before there was any; they are answered afterwards."""
    bench.worker.holding = True
    bench.fill(WHOLE)
    bench.work_until(lambda: owner.metric("headrace_queue_depth") >= WHOLE - SLOTS)
    full = owner.resident_mib
    bench.say("owner's memory without a backlog", empty, "MiB")
    bench.say(f"owner's memory with {WHOLE:,} of 1 KiB whole in its windows", full, "MiB")
    bench.say("memory of each of them", (full - empty) * 1024 / WHOLE, "KiB", 3.5)
    bench.worker.holding = False


def memory_of_all(owner: Replica) -> str:
    """What it has in memory now."""
    spilled = owner.metric("headrace_queue_spilled")
    whole = owner.metric("headrace_queue_depth") - spilled
    return f"owner's memory with {whole:,} whole, and of {spilled:,} the metadata alone"


def main(count: int) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(KafkaCluster(heap="1g"))
        bench = Bench(broker.bootstrap, folder)
        stack.callback(bench.close)
        with bench.scheduler("one") as one:
            bench.work_until(lambda: bench.owners.open_by("one"))
            memory(bench, one, one.resident_mib)
            began = time.monotonic()
            bench.fill(count)
            bench.say("backlog written", time.monotonic() - began, "s")
            with bench.scheduler("two") as two:
                bench.work_until(two.has_started)
                stands_by_for(bench, 20)
                bench.say(memory_of_all(one), one.resident_mib, "MiB")
                bench.say("standby's memory", two.resident_mib, "MiB")
                epoch = next_epoch(bench)
                one.kill()
                warm = bench.work_until(lambda: bench.runs_of(epoch))
                bench.say("warm takeover, kill -9 to the first release", warm, "s", 6)
                two.kill()
        epoch = next_epoch(bench)
        with bench.scheduler("one"):
            cold = bench.work_until(lambda: bench.runs_of(epoch))
            bench.say("cold takeover by a fresh process, from its start", cold, "s", 30)
            with bench.scheduler("two") as two:
                bench.work_until(two.has_started)
                stands_by_for(bench, 20)
                for to in ("two", "one", "two"):
                    epoch = next_epoch(bench)
                    bench.pool.tell(MovePool(to=to))
                    bench.pool.producer.flush(timedelta(seconds=5))
                    moved = bench.work_until(lambda epoch=epoch: bench.runs_of(epoch))  # type: ignore[misc]
                    bench.say(f"planned handover to {to}, order to the first release", moved, "s", 1)
                    stands_by_for(bench, 8)
        again = [request for request, runs in bench.worker.ran.items() if runs > 1]
        bench.say("requests that ran twice", len(again), "requests", 0)
        return bool(bench.missed)


if __name__ == "__main__":
    sys.exit(main(count_of(parser_of(__spec__, __doc__), "requests", 1_000_000, "in the backlog")))
