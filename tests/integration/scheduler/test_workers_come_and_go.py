"""Workers are added and taken away at any time, also more of them than lanes: nothing is lost and nothing runs twice."""

from collections import Counter

from tests.support.scheduler.live import Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker


def ran(workers: list[LiveWorker]) -> Counter[str]:
    return sum((worker.ran for worker in workers), Counter())


def test_more_workers_than_lanes_share_them_and_each_gets_its_own_work(pool: Pool) -> None:
    lanes = pool.policy.topics.lanes
    workers = [LiveWorker(pool, limit=2, name=f"w{n}", lane=n % lanes) for n in range(lanes + 2)]
    scheduler = pool.scheduler("one")
    turns = [scheduler.turn, *(worker.turn for worker in workers)]
    for worker in workers:
        worker.holding = True
    ids = pool.submit(2 * len(workers))
    turn_until(pool, turns, lambda: sum(ran(workers).values()) == len(ids))
    assert [sum(worker.ran.values()) for worker in workers] == [2] * len(workers)
    for worker in workers:
        worker.holding = False
    turn_until(pool, turns, lambda: len(pool.results_read()) == len(ids))
    assert ran(workers) == Counter(ids)
    scheduler.stop()
    for worker in workers:
        worker.close()


def test_workers_that_come_and_leave_under_load_lose_and_repeat_nothing(pool: Pool) -> None:
    scheduler, first = pool.scheduler("one"), LiveWorker(pool, limit=2, name="w0")
    gone: list[LiveWorker] = []
    here = [first]
    ids: list[str] = []

    def turn() -> None:
        scheduler.turn()
        for worker in here:
            worker.turn()

    for number in range(1, 6):
        ids += pool.submit(10)
        here.append(LiveWorker(pool, limit=2, name=f"w{number}", lane=number % pool.policy.topics.lanes))
        turn_until(pool, [turn], lambda: sum(here[-1].ran.values()) > 0)
        leaver = here.pop(0)
        leaver.draining = True
        turn_until(pool, [turn, leaver.turn], lambda: leaver.empty)  # noqa: B023 - called at once
        leaver.leave()
        gone.append(leaver)
    turn_until(pool, [turn], lambda: len({r.id for r in pool.results_read()}) == len(ids))
    assert Counter(result.id for result in pool.results) == Counter(ids)
    assert ran([*gone, *here]) == Counter(ids)
    scheduler.stop()
    here[0].close()


def test_a_worker_that_was_taken_for_dead_begins_anew_and_the_pool_goes_on(pool: Pool) -> None:
    scheduler, silent, other = pool.scheduler("one"), LiveWorker(pool), LiveWorker(pool, name="other")
    silent.holding, boot = True, silent.boot
    first = pool.submit(2)
    turn_until(pool, [scheduler.turn, silent.turn], lambda: silent.ran == Counter(first))
    turn_until(
        pool, [scheduler.turn, other.turn], lambda: len(pool.results_read()) == len(first) and other.empty
    )
    other.leave()
    then = pool.submit(2)
    turn_until(pool, [scheduler.turn, silent.turn], lambda: silent.ran == Counter(first + then))
    silent.holding = False
    turn_until(pool, [scheduler.turn, silent.turn], lambda: len(pool.results_read()) == len(first + then))
    assert silent.boot != boot
    assert (silent.ran, other.ran) == (Counter(first + then), Counter(first))
    scheduler.stop()
    silent.close()
