"""Who loses a pool again and again keeps no client of it: threads and memory would grow with every change of owner."""

from collections.abc import Iterator

import pytest

from headrace.scheduler.owning import Owning
from headrace.scheduler.service import Scheduler
from tests.support.eventually import eventually
from tests.support.leftovers import client_threads, without_collector
from tests.support.scheduler.live import Pool, turn_until

CHANGES = 4


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    with without_collector():
        yield


def owns(scheduler: Scheduler) -> bool:
    [loop] = scheduler._pools
    return isinstance(loop.doing, Owning) and loop.doing.core.state.open


def changes_owner(pool: Pool, old: Scheduler, new: Scheduler) -> None:
    """The old one stands still until the new one has the pool, and then finds out."""
    turn_until(pool, [new.turn], lambda: owns(new))
    turn_until(pool, [old.turn, new.turn], lambda: not owns(old))
    turn_until(pool, [old.turn, new.turn], lambda: old._pools[0].doing is not None)


def test_threads_do_not_grow_with_changes_of_owner(pool: Pool) -> None:
    one, two = pool.scheduler("one"), pool.scheduler("two")
    turn_until(pool, [one.turn], lambda: owns(one))
    changes_owner(pool, one, two)
    changes_owner(pool, two, one)
    before = client_threads()
    for _ in range(CHANGES // 2):
        changes_owner(pool, one, two)
        changes_owner(pool, two, one)
    eventually(lambda: client_threads() <= before + 2, "the clients' threads have ended")
    one.stop()
    two.stop()
