"""A pool goes to another replica because somebody wants it to: moved, or given up by a replica that stops."""

import dataclasses
from collections import Counter
from datetime import timedelta

from msgspec.structs import replace

from headrace.bus.ports import Bus
from headrace.contracts.control import MovePool
from tests.support.scheduler.live import FAST, Ownerships, Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import POOL, policy

NAMES = ("one", "two", "three")


def test_a_moved_pool_is_followed_by_the_named_replica_alone_and_nothing_runs_again(pool: Pool) -> None:
    worker, owners = LiveWorker(pool), Ownerships(pool)
    # Silence makes nobody follow, however long a loaded machine takes for a turn: only the name that is given does.
    deaf = dataclasses.replace(FAST, silent=timedelta(hours=1))
    first, *others = (pool.scheduler(name, NAMES, deaf) for name in NAMES)
    turn_until(pool, [first.turn, worker.turn], lambda: owners.open_by("one"))
    ids = pool.submit(12)
    worker.holding = True
    turns = [first.turn, *(other.turn for other in others), worker.turn]
    turn_until(pool, turns, lambda: sum(worker.ran.values()) == worker.limit)
    for to in ("three", "two", "three"):
        pool.tell(MovePool(to=to))
        turn_until(pool, turns, lambda to=to: owners.open_by(to))  # type: ignore[misc]
    worker.holding = False
    turn_until(pool, turns, lambda: len({r.id for r in pool.results_read()}) == len(ids))
    assert worker.ran == Counter(ids)
    assert Counter(result.id for result in pool.results) == Counter(ids)
    epochs = {record.epoch: record.owner for record in owners.all()}
    assert list(epochs.values()) == ["one", "three", "two", "three"]
    for each in (first, *others):
        each.stop()
    owners.close()
    worker.close()


def test_a_pool_that_was_moved_to_a_dead_replica_is_followed_by_another_after_the_silence(pool: Pool) -> None:
    owners, one, two = Ownerships(pool), pool.scheduler("one", NAMES), pool.scheduler("two", NAMES)
    turn_until(pool, [one.turn], lambda: owners.open_by("one"))
    pool.tell(MovePool(to="three"))
    turn_until(pool, [one.turn, two.turn], lambda: owners.all()[-1].epoch == 2)
    released = [record for record in owners.all() if record.released]
    assert [(record.epoch, record.successor) for record in released] == [(1, "three")]
    for each in (one, two):
        each.stop()
    owners.close()


def test_six_pools_are_spread_evenly_over_three_replicas_that_begin_together(bus: Bus, prefix: str) -> None:
    one = policy()
    names = [f"pool-{n}" for n in range(6)]
    many = replace(one, pools={POOL: one.pools[POOL]} | dict.fromkeys(names[1:], one.pools[POOL]))
    pool = Pool(bus, prefix, many)
    owners = {name: Ownerships(pool, name) for name in many.pools}
    # the others would wait for a minute, so that a loaded machine proves nothing else
    patient = dataclasses.replace(FAST, rank_step=timedelta(seconds=60))
    replicas = [pool.scheduler(name, NAMES, patient) for name in NAMES]
    turn_until(
        pool, [each.turn for each in replicas], lambda: all(of_pool.last() for of_pool in owners.values())
    )
    owned = Counter(last.owner for of_pool in owners.values() if (last := of_pool.last()) is not None)
    assert owned == Counter(dict.fromkeys(NAMES, 2))
    for each in replicas:
        each.stop()
    turn_until(pool, [], lambda: all(record[-1].released for record in map(Ownerships.all, owners.values())))
    for of_pool in owners.values():
        of_pool.close()
    pool.close()
