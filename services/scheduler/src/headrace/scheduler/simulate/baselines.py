"""The policies that headrace is compared with. In simulations only: no service runs any of them.

Each is an order in which what waits is taken; Simple makes a contender of it that fills every backend up to its limit.
Invariant: none looks at what a request will cost, so none needs an estimate.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Protocol

from headrace.contracts.durations import ms
from headrace.contracts.policy import TierPolicy
from headrace.scheduler.simulate.backend import Backend
from headrace.scheduler.simulate.contender import Contender, Drop, Left, MakeContender, Order, Start
from headrace.scheduler.simulate.jobs import Job

IN_TURN = "backends-in-turn"
"""First come, first served, each to the backend after the last: round robin, as a load balancer does it."""


class Discipline(Protocol):
    """An order of what waits."""

    drops_expired: bool
    """Whether what is late already is dropped when its turn comes."""

    def put(self, job: Job) -> None:
        """It has arrived."""

    def pop(self) -> Job | None:
        """The next one, which waits no longer; None: nobody waits."""


class Fifo:
    """First come, first served."""

    def __init__(self, *, drops_expired: bool) -> None:
        self.drops_expired = drops_expired
        self._queue: deque[Job] = deque()

    def put(self, job: Job) -> None:
        """At the end."""
        self._queue.append(job)

    def pop(self) -> Job | None:
        """From the beginning."""
        return self._queue.popleft() if self._queue else None


class StrictPriority:
    """The tier of the greatest weight always first; inside it first come, first served."""

    drops_expired = True

    def __init__(self, tiers: Mapping[str, TierPolicy]) -> None:
        ranked = sorted(tiers, key=lambda name: (-tiers[name].weight, name))
        self._queues: dict[str, deque[Job]] = {name: deque() for name in ranked}

    def put(self, job: Job) -> None:
        """At the end of its tier."""
        self._queues[job.tier].append(job)

    def pop(self) -> Job | None:
        """From the first tier where anybody waits."""
        return next((queue.popleft() for queue in self._queues.values() if queue), None)


class EarliestDeadline:
    """The earliest deadline first; none counts as arrival plus the tier's queue time-out. What is late is served, too."""

    drops_expired = False

    def __init__(self, tiers: Mapping[str, TierPolicy]) -> None:
        self._patience_ms = {name: ms(tier.queue_timeout) for name, tier in tiers.items()}
        self._heap: list[tuple[int, int, Job]] = []

    def put(self, job: Job) -> None:
        """By its deadline."""
        by_ms = job.at_ms + self._patience_ms[job.tier] if job.deadline_ms is None else job.deadline_ms
        heappush(self._heap, (by_ms, job.number, job))

    def pop(self) -> Job | None:
        """The earliest."""
        return heappop(self._heap)[2] if self._heap else None


class RoundRobin:
    """One request of each tenant in turn, whatever it costs; inside a tenant first come, first served."""

    drops_expired = True

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[Job]] = OrderedDict()

    def put(self, job: Job) -> None:
        """At the end of its tenant; a tenant who had nothing comes last."""
        self._queues.setdefault(job.tenant, deque()).append(job)

    def pop(self) -> Job | None:
        """From the tenant whose turn it is."""
        if not self._queues:
            return None
        tenant, queue = self._queues.popitem(last=False)
        job = queue.popleft()
        if queue:
            self._queues[tenant] = queue
        return job


class Simple(Contender):
    """Any discipline, on backends that are each filled up to their slots: the emptiest first, or one after the other."""

    def __init__(self, discipline: Discipline, backends: Sequence[Backend], *, in_turn: bool = False) -> None:
        self._discipline, self._backends, self._in_turn = discipline, backends, in_turn
        self._last = -1

    def turn(self, now_ms: int, arrived: Sequence[Job], left: Sequence[Left]) -> Sequence[Order]:  # noqa: ARG002
        """Fill what is free."""
        for job in arrived:
            self._discipline.put(job)
        free = [b.model.slots - len(b.running) - len(b.waiting) for b in self._backends]
        orders: list[Order] = []
        while max(free) > 0:
            chosen = self._discipline.pop()
            if chosen is None:
                break
            late = chosen.deadline_ms is not None and now_ms >= chosen.deadline_ms
            if late and self._discipline.drops_expired:
                orders.append(Drop(chosen))
                continue
            where = self._next_in_turn(free) if self._in_turn else free.index(max(free))
            free[where] -= 1
            orders.append(Start(chosen, where))
        return orders

    def _next_in_turn(self, free: Sequence[int]) -> int:
        after = (number % len(free) for number in range(self._last + 1, self._last + 1 + len(free)))
        self._last = next(number for number in after if free[number] > 0)
        return self._last

    def wake_ms(self) -> int | None:
        """Never."""
        return None

    def promised_gap(self) -> int | None:
        """Nothing."""
        return None


def baselines(tiers: Mapping[str, TierPolicy]) -> dict[str, MakeContender]:
    """All of them, by name."""
    disciplines: dict[str, Callable[[], Discipline]] = {
        "fifo": lambda: Fifo(drops_expired=False),
        "fifo-drop": lambda: Fifo(drops_expired=True),
        "strict": lambda: StrictPriority(tiers),
        "edf": lambda: EarliestDeadline(tiers),
        "round-robin": RoundRobin,
    }
    found = {name: _maker(make) for name, make in disciplines.items()}
    return {**found, IN_TURN: _maker(lambda: Fifo(drops_expired=False), in_turn=True)}


def _maker(make: Callable[[], Discipline], *, in_turn: bool = False) -> MakeContender:
    return lambda backends, _seed: Simple(make(), backends, in_turn=in_turn)
