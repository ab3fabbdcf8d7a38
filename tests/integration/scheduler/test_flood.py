"""A tenant floods its partition, on both buses: its payloads come back from the log, and its neighbours run meanwhile."""

from headrace.bus.messages import Place
from headrace.contracts.control import CancelRequest
from headrace.contracts.lifecycle import Status
from headrace.contracts.partitions import partition_of
from headrace.contracts.topics import TopicKind
from headrace.scheduler.core.pool_core import PoolCore
from headrace.scheduler.owning import Owning
from headrace.scheduler.service import Scheduler
from tests.support.scheduler.live import Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker

FLOOD, NEIGHBOUR = "a", "c"
MANY, FEW, BOUND = 400, 12, 20


def core_of(scheduler: Scheduler) -> PoolCore | None:
    """While it owns the pool."""
    doing = scheduler._pools[0].doing
    return doing.core if isinstance(doing, Owning) else None


def spilled(scheduler: Scheduler) -> int:
    """How many requests are."""
    core = core_of(scheduler)
    return 0 if core is None else len(core.state.spilled)


def waiting(scheduler: Scheduler) -> int:
    """How many requests are known."""
    core = core_of(scheduler)
    return 0 if core is None else len(core.state.tracked)


def test_a_flood_is_spilled_and_runs_whole_while_its_neighbours_pass_it(pool: Pool) -> None:
    assert partition_of(FLOOD, 2) == partition_of(NEIGHBOUR, 2)
    pool.bodies = True
    scheduler = pool.scheduler("one", tenant_records=BOUND, window_records=100)
    flood = pool.submit(MANY, FLOOD)
    neighbours = pool.submit(FEW, NEIGHBOUR)
    turn_until(pool, [scheduler.turn], lambda: waiting(scheduler) == MANY + FEW)
    assert spilled(scheduler) == MANY - BOUND
    paused = set[Place]()
    worker = LiveWorker(pool, limit=8)

    def turn() -> None:
        scheduler.turn()
        core = core_of(scheduler)
        assert core is not None
        paused.update(core.state.partitions.paused())

    turn_until(pool, [turn, worker.turn], lambda: len(pool.results_read()) == MANY + FEW)
    assert {each.id for each in pool.results} == {*flood, *neighbours}
    assert all(each.status is Status.SUCCEEDED for each in pool.results)
    assert set(worker.ran.values()) == {1}
    in_order = list(worker.ran)
    assert [each for each in in_order if each in set(flood)] == flood
    assert max(in_order.index(each) for each in neighbours) < 4 * FEW, "they take turns with the flood"
    assert worker.values == [each.encode() for each in in_order]
    assert paused == set()
    scheduler.stop()
    worker.close()


def test_a_takeover_amid_a_flood_loses_nothing_and_repeats_nothing(pool: Pool) -> None:
    first = pool.scheduler("one", tenant_records=BOUND)
    flood, worker = pool.submit(MANY, FLOOD), LiveWorker(pool, limit=8)
    turn_until(pool, [first.turn, worker.turn], lambda: len(pool.results_read()) >= 50)
    assert spilled(first) > 0
    cancelled = flood[-10:]
    for each in cancelled:
        pool.tell(CancelRequest(id=each, tenant=FLOOD, at_ms=pool.clock.now().wall_ms))

    def all_cancelled() -> bool:
        statuses = [each.status for each in pool.results_read()]
        return statuses.count(Status.CANCELLED) == len(cancelled)

    turn_until(pool, [first.turn, worker.turn], all_cancelled)
    second = pool.scheduler("two", tenant_records=BOUND)
    ended = set[str]()

    def all_ended() -> bool:
        ended.update(each.id for each in pool.results_read())
        return len(ended) == MANY

    turn_until(pool, [second.turn, worker.turn], all_ended)
    assert ended == set(flood), "the end of a cancelled one may stand there twice: the first counts"
    assert not set(cancelled) & set(worker.ran)
    assert set(worker.ran.values()) == {1}
    where = pool.place(TopicKind.REQUESTS, partition_of(FLOOD, 2), "batch")
    core = core_of(second)
    assert core is not None
    turn_until(
        pool,
        [second.turn, worker.turn],
        lambda: core.state.partitions.by_place[where].finished.prefix >= MANY,
    )
    for replica in (second, first):
        replica.stop()
    worker.close()
