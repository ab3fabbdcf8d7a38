"""What one decision of the owner costs: a request queued, the next one picked, charged and settled, with long queues.

    python -m tests.benchmarks.decisions

The product's own queue and counters, filled beforehand. Times are of this machine; the number of calls is not, and shows how
the work grows. Exit status 1 when an aim is missed.
"""

import gc
import random
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean

from headrace.bus.messages import Received
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Origin, Payload
from headrace.scheduler.decisions.pick_next import order_key
from headrace.scheduler.state.accounts import Accounts
from headrace.scheduler.state.fair_queue import FairQueue
from headrace.scheduler.state.spilled import Spilled
from headrace.scheduler.state.tracked import Phase, Tracked
from tests.benchmarks.saying import say
from tests.support.entry import parser_of

TIER = "standard"
TURNS, COUNTED = 20_000, 2_000
IN_FLIGHT = 256
GROWTH = 8.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much waits, and the aim for the mean of one decision in microseconds."""

    tenants: int
    queued: int
    aim_us: float


SIZES = (Size(10, 1_000, 10.0), Size(1_000, 100_000, 10.0), Size(100_000, 1_000_000, 20.0))


class Pool:
    """A queue of so many requests by so many tenants, and some attempts in flight."""

    def __init__(self, size: Size) -> None:
        self._dice = random.Random(size.queued)  # noqa: S311 a benchmark is the same each time
        names = [f"tenant-{number}" for number in range(size.tenants)]
        weights = {name: self._dice.choice((1, 1, 2, 5)) for name in names}
        shares = {TIER: Fraction(13, 20), "batch": Fraction(7, 20)}
        self._accounts = Accounts(shares, weights)
        self._queue = FairQueue(self._accounts, Spilled())
        self._records = [_record(name) for name in names]
        self._offset = 0
        self._in_flight: deque[Tracked] = deque()
        for number in range(size.queued):
            self._queue.put(self._arrived(self._records[number % len(names)]))
        for _ in range(IN_FLIGHT):
            self._in_flight.append(self._dispatched())
        self._arrivals = deque(
            self._arrived(self._dice.choice(self._records)) for _ in range(TURNS + COUNTED)
        )
        self._spent = deque(self._dice.randint(1, 4_000) for _ in range(TURNS + COUNTED))

    def turn(self) -> None:
        """One request comes, one goes, one ends."""
        self._queue.put(self._arrivals.popleft())
        self._in_flight.append(self._dispatched())
        ended = self._in_flight.popleft()
        record = ended.record
        self._accounts.refund(record.tier, record.tenant, ended.charge)
        self._accounts.settle(record.tier, record.tenant, self._spent.popleft())

    def _dispatched(self) -> Tracked:
        chosen = self._queue.next(1_000)
        if chosen is None:
            raise SystemExit("nothing waits: the benchmark is wrong")
        self._queue.take(chosen, Phase.HELD)
        self._accounts.dispatch(chosen.record.tier, chosen.record.tenant, chosen.charge)
        return chosen

    def _arrived(self, record: RequestRecord) -> Tracked:
        self._offset += 1
        origin = Origin("requests", 0, self._offset)
        received = Received("requests", 0, self._offset, 0, b"", (), None)
        order = order_key(0, self._dice.randint(0, 10**9), self._offset, self._offset)
        return Tracked(record, origin, received, (), order, charge=self._dice.randint(1, 4_000))


def _record(tenant: str) -> RequestRecord:
    return RequestRecord(
        id=f"req_{tenant}", tenant=tenant, pool="p", tier=TIER, partition=0, model="m", route="/v1/chat/completions",
        accepted_ms=0, payload=Payload(size=0), gateway=0, max_tokens=100, prompt_tokens=100,
    )  # fmt: skip


def times_us(pool: Pool) -> list[float]:
    """Of each turn, the garbage collector included: of this thread's processor, so that other work counts little."""
    found = []
    for _ in range(TURNS):
        began = time.thread_time_ns()
        pool.turn()
        found.append((time.thread_time_ns() - began) / 1_000)
    return found


def calls(pool: Pool) -> float:
    """How many functions of Python and C one turn calls: the same on every machine."""
    count = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        for _ in range(COUNTED):
            pool.turn()
    finally:
        sys.setprofile(None)
    return count / COUNTED


def p99(values: Sequence[float]) -> float:
    """The value that 99 in 100 don't exceed."""
    return sorted(values)[int(len(values) * 0.99)]


def main() -> int:
    """Prints a line for each size; 1 when an aim is missed."""
    missed, counted = False, []
    for size in SIZES:
        gc.collect()
        pool = Pool(size)
        gc.freeze()
        taken = times_us(pool)
        counted.append(calls(pool))
        gc.unfreeze()
        mean = fmean(taken)
        missed |= mean > size.aim_us
        say(
            f"{'held  ' if mean <= size.aim_us else 'MISSED'}  {size.tenants:,} tenants, {size.queued:,} queued: "
            f"mean {mean:.1f} us (aim <= {size.aim_us:g}), p99 {p99(taken):.1f} us, {counted[-1]:.0f} calls"
        )
    growth = max(counted) / counted[0]
    missed |= growth > GROWTH
    say(f"{'held  ' if growth <= GROWTH else 'MISSED'}  calls grow {growth:.2f}x (aim <= {GROWTH:g})")
    return int(missed)


if __name__ == "__main__":
    parser_of(__spec__, __doc__).parse_args()
    sys.exit(main())
