"""Which gates are closed to a request that waits, and by which limits? Called by core.gates_now.

Invariant: asked in the order in which the owner itself goes through them, so that the first is what has to change first; no
gate closed means that the request only waits for its turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.contracts.explanations import Closed, Gate
from headrace.scheduler.decisions.how_much_may_a_backend_hold import Binding, room_of, what_binds


class Over(NamedTuple):
    """A ceiling of so much that was reached (None: one that isn't told), and when (Unix ms) there is room below it again."""

    amount: int | None
    until_ms: int


class Slots(NamedTuple):
    """One live worker. `ready`: it is healthy, isn't drained and has answered this owner; `learned` as `room_of` has it;
    `over`: its backend has been given what it takes in a minute, or asked to be spared.
    """

    limit: int
    held: int
    learned: int | None = None
    ready: bool = True
    apart: bool = False
    over: Over | None = None

    @property
    def room(self) -> int:
        """How many more it may be given; one set apart for suspects, or over a ceiling, none."""
        if self.over is not None:
            return 0
        return room_of(
            limit=self.limit,
            held=self.held,
            learned=self.learned,
            healthy=self.ready,
            draining=False,
            answered=not self.apart,
        )


@dataclass(frozen=True, slots=True)
class Gates:
    """How things stand. `kept`: free slots that other tiers own; `staying`: (how many that can't be stopped again may run,
    how many do) where the next of its tier waits as one of them; `most_in_flight`: None while nobody else of its tier waits;
    `due_ms` (Unix ms): when its next try is due; `reading_again`: its tenant's next isn't in memory; `cache`: (what fits,
    what is promised) where the next in line fits no cache.
    """

    workers: Sequence[Slots]
    leaving: bool = False
    frozen: bool = False
    stalled: bool = False
    pool_ceiling: Over | None = None
    ceiling: Over | None = None
    suspect: bool = False
    due_ms: int | None = None
    kept: int = 0
    staying: tuple[int, int] | None = None
    in_flight: int = 0
    most_in_flight: int | None = None
    reading_again: bool = False
    cache: tuple[int, int] | None = None


def which_gates(gates: Gates) -> tuple[Closed, ...]:
    """Those that are closed."""
    return (*_whole_pool(gates), *_own(gates), *_room(gates), *_turn(gates))


def _whole_pool(gates: Gates) -> Iterator[Closed]:
    flags = (
        (Gate.LEAVING, gates.leaving),
        (Gate.FROZEN, gates.frozen),
        (Gate.COMMANDS_STALLED, gates.stalled),
    )
    yield from (Closed(gate=gate) for gate, closed in flags if closed)
    for gate, over in ((Gate.POOL_CEILING, gates.pool_ceiling), (Gate.CEILING, gates.ceiling)):
        if over is not None:
            yield Closed(gate=gate, limit=over.amount, until_ms=over.until_ms)


def _own(gates: Gates) -> Iterator[Closed]:
    if gates.suspect:
        yield Closed(gate=Gate.SUSPECT)
    if gates.due_ms is not None:
        yield Closed(gate=Gate.RETRY_WAIT, until_ms=gates.due_ms)


def _room(gates: Gates) -> Iterator[Closed]:
    """Nobody has room, for one reason or several."""
    ready = [worker for worker in gates.workers if worker.ready]
    able = [worker for worker in ready if not worker.apart]
    if not gates.workers:
        yield Closed(gate=Gate.NO_WORKER)
    elif not ready:
        yield Closed(gate=Gate.NO_READY_WORKER, limit=len(gates.workers), used=0)
    elif not able:
        yield Closed(gate=Gate.SET_APART)
    elif not any(worker.room for worker in able):
        yield from _full(able)


def _full(able: Sequence[Slots]) -> Iterator[Closed]:
    """Of workers that take work, none has room. A ceiling of a backend's that opens first is told."""
    over = [each.over for each in able if each.over is not None]
    if over:
        opens = min(over, key=lambda each: each.until_ms)
        yield Closed(gate=Gate.BACKEND_CEILING, limit=opens.amount, until_ms=opens.until_ms)
    others = [each for each in able if each.over is None]
    bound = [(what_binds(held=each.held, limit=each.limit, learned=each.learned), each) for each in others]
    full = [each for binds, each in bound if binds is Binding.OPERATOR]
    learned = [each for binds, each in bound if binds is Binding.REQUESTS]
    if full:
        yield _taken(Gate.SLOTS, [(each.limit, each.held) for each in full])
    if learned:
        yield _taken(Gate.BACKEND_LIMIT, [(each.learned or 0, each.held) for each in learned])


def _turn(gates: Gates) -> Iterator[Closed]:
    """There may be room, but not for this one."""
    room = sum(worker.room for worker in gates.workers)
    if room and gates.kept >= room:
        yield Closed(gate=Gate.HEADROOM, limit=gates.kept, used=0)
    if room and gates.staying is not None:
        may, run = gates.staying
        yield Closed(gate=Gate.STOPPED_OFTEN, limit=may, used=run)
    if gates.most_in_flight is not None and gates.in_flight >= gates.most_in_flight:
        yield Closed(gate=Gate.TENANT_SLOTS, limit=gates.most_in_flight, used=gates.in_flight)
    if room and gates.reading_again:
        yield Closed(gate=Gate.READING_AGAIN)
    if room and gates.cache is not None:
        fits, promised = gates.cache
        yield Closed(gate=Gate.CACHE, limit=fits, used=promised)


def _taken(gate: Gate, pairs: Sequence[tuple[int, int]]) -> Closed:
    return Closed(gate=gate, limit=sum(limit for limit, _ in pairs), used=sum(held for _, held in pairs))
