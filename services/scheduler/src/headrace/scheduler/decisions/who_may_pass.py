"""Which request is released first, of those whose turns come near each other: the one that a cache saves most of.

Called by core.routing once it is a tenant's turn. After deficit longest prefix match (Cao and others, 2025).
Invariant: of a flow's requests only those of equal priority that came within QUANTUM of its first, and none passes one with
a deadline. Another tenant goes before the one whose turn it is only where its counter, charged, is no more above that one's
than the largest charge: so far above the least any counter may come that is charged in its turn, so the bounds still hold.
Whoever is first is passed at most MOST_PASSED times in a row, and not when its time to start runs out.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from headrace.contracts.durations import ms
from headrace.scheduler.decisions.pick_next import OrderKey, priority_of, times_of

QUANTUM = timedelta(seconds=10)
MOST_PASSED = 16
"""Also how many of a flow are looked at, the first included."""
MOST_TENANTS = 8
"""How many are looked at, the first included."""


def may_be_passed(*, passed: int, has_deadline: bool, start_by_ms: int | None, wall_ms: int) -> bool:
    """Whether the first may be passed once more."""
    if passed >= MOST_PASSED or has_deadline:
        return False
    return start_by_ms is None or start_by_ms - wall_ms > ms(QUANTUM)


def near(orders: Iterable[tuple[OrderKey, bool]]) -> Iterator[int]:
    """How far the choice goes in requests (order, whether it has a deadline) in their order: numbers, from 0."""
    first: OrderKey | None = None
    for number, (order, has_deadline) in enumerate(orders):
        first = order if first is None else first
        apart_ms = times_of(order)[0] - times_of(first)[0]
        if priority_of(order) != priority_of(first) or apart_ms > ms(QUANTUM) or number >= MOST_PASSED:
            return
        yield number
        if has_deadline:
            return


def may_go_before(counter: int, step: int, *, least: int, largest: int) -> bool:
    """Whether a tenant may be served though another has the `least` counter.

    `step`: by how much its own would move; `largest`: the most by which a charge has moved one.
    """
    return counter + step <= least + largest


def saved_most(blocks: Sequence[tuple[int, int]]) -> int:
    """Which of these had best run now: (blocks that a backend with room has, blocks that any backend has) of each.

    What the best backend would save and those with room don't counts against it: it had better wait for that one. Of equals
    the first.
    """
    return max(range(len(blocks)), key=lambda number: (2 * blocks[number][0] - blocks[number][1], -number))
