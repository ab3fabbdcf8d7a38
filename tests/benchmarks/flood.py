"""What a flooding tenant costs: the owner's memory for each request that waits, and its partition's neighbours their time.

    python -m tests.benchmarks.flood [REQUESTS]

The product's own core. Memory: REQUESTS (1,000,000) of one tenant are read, and the growth of this process is divided by
them. Waits and pauses: virtual time, an owner that reads at most 500 records each 25 ms, 64 slots, a flood of 1,000 requests
a second for a minute beside ten tenants who send little, half of them on its partition; with spilling and without. Exit
status 1 when an aim is missed.
"""

import gc
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import thread_time_ns
from typing import Any

from headrace.bus.messages import Place, Received
from headrace.contracts.partitions import partition_of
from headrace.contracts.policy import Policy, policy_from
from headrace.scheduler.core.step import Inputs
from headrace.scheduler.decisions.what_to_spill import SpillBounds
from headrace.scheduler.decisions.when_to_pause import Window as Watermarks
from headrace.scheduler.simulate.backend import Backend, BackendModel
from headrace.scheduler.simulate.contender import Left, Order
from headrace.scheduler.simulate.gap import GapWatch
from headrace.scheduler.simulate.jobs import Job
from headrace.scheduler.simulate.owner import Owner
from headrace.scheduler.simulate.world import Window, World
from tests.benchmarks.saying import say
from tests.support.entry import count_of, parser_of

POOL, TIER, FLOOD = "chat", "standard", "flood"
PARTITIONS, SLOTS = 4, 64
AT_ONCE, EACH_MS = 500, 25
SECONDS, PER_SECOND, NEIGHBOUR_EACH_MS = 60, 1_000, 340
INPUT, OUTPUT = 200, 40
MOST_BYTES, MOST_RATIO, MOST_PAUSES = 400, 2.0, 60


def policy() -> Policy:
    """One pool, and the tiers of the default policy."""
    return policy_from(
        {"pools": {POOL: {"models": {"m": "m"}}}, "topics": {"tenant_partitions": PARTITIONS, "lanes": 4}}
    )


def tenants() -> tuple[list[str], list[str]]:
    """Five on the flood's partition, and five on others."""
    own, found = partition_of(FLOOD, PARTITIONS), defaultdict[bool, list[str]](list)
    for number in range(200):
        name = f"tenant{number}"
        found[partition_of(name, PARTITIONS) == own].append(name)
    return found[True][:5], found[False][:5]


class Paced(Owner):
    """Reads no faster than a real one, and counts how often a partition is paused."""

    def __init__(self, spill: SpillBounds | None) -> None:
        super().__init__(policy(), POOL, [Backend(BackendModel(SLOTS))], 1, spill)
        self._held_back: deque[Job] = deque()
        self._to_read_ms = 0
        self.pauses: Counter[Place] = Counter()
        self.most_spilled = 0

    def turn(self, now_ms: int, arrived: Sequence[Job], left: Sequence[Left]) -> Sequence[Order]:
        """As Owner.turn, with what may be read now."""
        self._held_back.extend(arrived)
        take = 0
        if now_ms >= self._to_read_ms and self._held_back:
            self._to_read_ms, take = now_ms + EACH_MS, AT_ONCE
        before = set(self._outputs.paused)
        now = [self._held_back.popleft() for _ in range(min(take, len(self._held_back)))]
        orders = super().turn(now_ms, now, left)
        self.pauses.update(self._outputs.paused - before)
        self.most_spilled = max(self.most_spilled, len(self._core.state.spilled))
        return orders

    def wake_ms(self) -> int | None:
        """As Owner.wake_ms; to read on, too."""
        wake_ms = super().wake_ms()
        return min(wake_ms or self._to_read_ms, self._to_read_ms) if self._held_back else wake_ms


def jobs() -> list[Job]:
    """All that is sent, in the order of its time."""
    near, far = tenants()
    sent = [(at * 1_000 // PER_SECOND, FLOOD) for at in range(SECONDS * PER_SECOND)]
    for number, name in enumerate([*near, *far]):
        sent += [(at, name) for at in range(1_000 + 31 * number, SECONDS * 1_000, NEIGHBOUR_EACH_MS)]
    return [
        Job(number, at_ms, tenant, TIER, INPUT, 0, OUTPUT)
        for number, (at_ms, tenant) in enumerate(sorted(sent))
    ]


def p99(values: Sequence[int]) -> int:
    """The value that 99 in 100 don't exceed."""
    return sorted(values)[int(len(values) * 0.99)]


def waits(spill: SpillBounds | None) -> tuple[int, int, float]:
    """p99 of the flood's neighbours and of others, ms, and the pauses a minute of the partition that is paused most."""
    owner, sent = Paced(spill), jobs()
    window = Window(0, SECONDS * 1_000)
    made = policy()
    gap = GapWatch(made.pools[POOL].cost, {})
    until_ms = SECONDS * 1_000 + 5_000
    World(sent, owner_backends(owner), owner, window=window, gap=gap, until_ms=until_ms).run()
    near, far = tenants()
    took = {
        name: [
            (until_ms if job.started_ms is None else job.started_ms) - job.at_ms
            for job in sent
            if job.tenant in names
        ]
        for name, names in (("near", near), ("far", far))
    }
    minutes = until_ms / 60_000
    say(f"        most spilled at a time: {owner.most_spilled:,}")
    return p99(took["near"]), p99(took["far"]), max(owner.pauses.values(), default=0) / minutes


def owner_backends(owner: Paced) -> list[Backend]:
    """Those that it was made with."""
    return list(owner._scribe._backends)


def resident_bytes() -> int:
    """What this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def memory(requests: int) -> tuple[float, float]:
    """Bytes and microseconds of the processor for each request that waits, most of them spilled."""
    owner: Any = Owner(policy(), POOL, [Backend(BackendModel(1))], 1)
    scribe, core = owner._scribe, owner._core
    core.state.setting = replace(
        core.state.setting, window=Watermarks(high_spilled=2 * requests, low_spilled=requests)
    )
    gc.collect()
    before, took_ns = resident_bytes(), 0
    for first in range(0, requests, AT_ONCE):
        records: list[Received] = []
        for number in range(first, min(first + AT_ONCE, requests)):
            job = Job(number, first, FLOOD, TIER, INPUT, 0, OUTPUT)
            records.append(scribe.request(job))
            del scribe.ids[job]
        began_ns = thread_time_ns()
        core._take_in(Inputs(records))
        took_ns += thread_time_ns() - began_ns
        core.state.out.counts.clear()
    gc.collect()
    state = core.state
    say(f"        {len(state.tracked):,} wait, {len(state.spilled):,} of them spilled")
    return (resident_bytes() - before) / requests, took_ns / requests / 1_000


def main(requests: int) -> int:
    """Prints a line for each aim; 1 when one is missed."""
    size, took_us = memory(requests)
    held = judged(
        size <= MOST_BYTES,
        f"{size:.0f} B for each of {requests:,} queued (aim <= {MOST_BYTES}), {took_us:.0f} us to take it in",
    )
    near, far, pauses = waits(SpillBounds())
    held &= judged(near <= MOST_RATIO * max(1, far), f"{told(near, far)} (aim <= {MOST_RATIO:g}x)")
    held &= judged(
        pauses <= MOST_PAUSES, f"{pauses:.0f} pauses a minute of a partition (aim <= {MOST_PAUSES})"
    )
    near, far, pauses = waits(None)
    say(f"        without spilling: {told(near, far)}; {pauses:.0f} pauses a minute")
    return int(not held)


def judged(held: bool, line: str) -> bool:
    """Says whether an aim was held."""
    say(f"{'held  ' if held else 'MISSED'}  {line}")
    return held


def told(near: int, far: int) -> str:
    """The waits, for a person."""
    return f"p99 wait of the flood's neighbours {near} ms, of others {far} ms: {near / max(1, far):.2f}x"


if __name__ == "__main__":
    sys.exit(
        main(
            count_of(
                parser_of(__spec__, __doc__),
                "requests",
                1_000_000,
                "of the flooding tenant, for memory",
            )
        )
    )
