"""How many requests an owner releases through a real Kafka in a second of one core, `run` out and outcome in.

    python -m tests.benchmarks.releases [--requests N] [--kib 1 5 48] [--profile]

A real broker, and the whole scheduler in this process; a worker in another process answers each `run` at once. What is
divided by is processor time, so that the broker and the worker, which share the machine, count little: once the time of the
loop, which is what a core of its own would do, and once of the whole process, librdkafka's threads with it. With --profile
also the functions that together take four fifths of the loop's time. Exit status 1 when requests of 1 KiB are released at
less than half of the aim.
"""

import cProfile
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.devkit.kafka import KafkaCluster
from headrace.runtime.garbage import freeze_what_is_loaded
from headrace.runtime.policy_file import load_policy
from headrace.scheduler.owning import Owning
from headrace.scheduler.service import Scheduler
from headrace.scheduler.timings import Timings
from tests.benchmarks.filling import fill
from tests.benchmarks.saying import say
from tests.support.entry import parser_of
from tests.support.scheduler.live import Pool
from tests.support.scheduler.pure import POOL

TIER = "standard"
POLICY = f"""
[pools.{POOL}.models]
m = "m"
"""
"""The three tiers of the default policy, with the headroom of interactive work."""
AIM, SHARE = 20_000, 0.5
WARM_UP = 0.2
NAMED = 0.8


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of the processor: of the loop's thread, and of the whole process; and of the clock."""

    loop: float
    whole: float
    clock: float

    @classmethod
    def now(cls) -> "Spent":
        """So far."""
        return cls(time.thread_time(), time.process_time(), time.monotonic())

    def since(self, before: "Spent") -> "Spent":
        """The difference."""
        return Spent(self.loop - before.loop, self.whole - before.whole, self.clock - before.clock)


@contextmanager
def worker(bootstrap: str, prefix: str, policy: Path) -> Iterator[None]:
    """A worker that answers at once, in a process of its own."""
    argv = [sys.executable, "-m", "tests.benchmarks.answering_worker", bootstrap, prefix, str(policy)]
    process = subprocess.Popen(argv)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def released(scheduler: Scheduler) -> int:
    """How many attempts it has begun."""
    doing: Any = scheduler._pools[0].doing
    return doing.core.state.sequence if isinstance(doing, Owning) else 0


def measure(scheduler: Scheduler, count: int, profile: cProfile.Profile | None) -> tuple[int, Spent]:
    """Let it release nearly all; how many, and what that took once it was warm."""
    while released(scheduler) < count * WARM_UP:
        scheduler.turn()
    first, before = released(scheduler), Spent.now()
    if profile is not None:
        profile.enable()
    while released(scheduler) < count * (1 - WARM_UP):
        scheduler.turn()
    if profile is not None:
        profile.disable()
    return released(scheduler) - first, Spent.now().since(before)


def name_functions(profile: cProfile.Profile) -> None:
    """Those that take the most by themselves, until they are four fifths."""
    stats: Any = pstats.Stats(profile)
    rows = sorted(((row[2], row[0], where) for where, row in stats.stats.items()), reverse=True)
    total, so_far = sum(own for own, _, _ in rows), 0.0
    for own, number, (file, line, name) in rows:
        where = f"{Path(file).stem}:{line} {name}" if line else name
        say(f"  {100 * own / total:5.1f} %  {number:>9,} calls  {where}")
        so_far += own
        if so_far > NAMED * total:
            return


def run(bootstrap: str, folder: Path, count: int, kib: float, *, profiled: bool) -> float:
    """One size; releases in a second of the loop's processor time."""
    policy, prefix = folder / "policy.toml", f"releases{kib:g}."
    policy.write_text(POLICY)
    pool = Pool(KafkaBus(KafkaConnection(bootstrap)), prefix, load_policy(policy))
    fill(pool, bootstrap, count, tier=TIER, size=int(kib * 1024))
    scheduler = pool.scheduler("one", timings=Timings())
    profile = cProfile.Profile() if profiled else None
    with worker(bootstrap, prefix, policy):
        number, spent = measure(scheduler, count, profile)
        scheduler.stop()
    pool.close()
    rate = number / spent.loop
    say(
        f"{kib:g} KiB: {rate:,.0f} releases a second of the loop's processor time, {number / spent.whole:,.0f} of the "
        f"whole process's; {number / spent.clock:,.0f} a second here, beside the broker and the worker"
    )
    if profile is not None:
        name_functions(profile)
    return rate


def main() -> int:
    """Prints a line for each size."""
    parser = parser_of(__spec__, __doc__)
    parser.add_argument(
        "--requests", type=int, default=100_000, help="of 5 KiB or less; default: %(default)s"
    )
    parser.add_argument("--kib", type=float, nargs="+", default=[1, 5, 48], help="sizes; default: 1 5 48")
    parser.add_argument("--profile", action="store_true", help="slower: compare its shares, not its rates")
    given = parser.parse_args()
    freeze_what_is_loaded()  # as whatever makes a loop the process does
    rates = dict[float, float]()
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(heap="1g") as broker:
        for kib in given.kib:
            count = int(given.requests / max(1, kib / 5))
            rates[kib] = run(broker.bootstrap, Path(folder), count, kib, profiled=given.profile)
    least = AIM * SHARE
    for kib, rate in rates.items():
        if kib == 1:
            word = "held  " if rate >= AIM else "short " if rate >= least else "MISSED"
            say(
                f"{word}  {rate:,.0f} releases of 1 KiB a second of one core (aim {AIM:,}, at least {least:,.0f})"
            )
    return int(any(kib == 1 and rate < least for kib, rate in rates.items()) and not given.profile)


if __name__ == "__main__":
    sys.exit(main())
