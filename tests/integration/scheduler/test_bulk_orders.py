"""An operator's orders for many requests, on both buses: they mean what stood in the log, and outlive who read them."""

from collections import Counter
from datetime import timedelta

import pytest

from headrace.bus.ports import START, LoopReader
from headrace.cli.log_reading import Logs
from headrace.contracts.checkpoints import Reprioritised
from headrace.contracts.codec import decode
from headrace.contracts.commands import Run
from headrace.contracts.control import CancelMatching, Reprioritise
from headrace.contracts.lifecycle import Status
from headrace.contracts.selections import Selection
from headrace.contracts.topics import TopicKind
from tests.support.scheduler.live import Ownerships, Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import POOL


def ends_now(pool: Pool) -> dict[str, dict[int, int]]:
    """Before which offsets all stands that was accepted until now: by barriers, as the command line proves it."""
    by_topic: dict[str, dict[int, int]] = {}
    for place, end in Logs(pool.bus, pool.prefix).ends_of_requests(POOL, pool.policy).items():
        by_topic.setdefault(place.topic, {})[place.partition] = end
    return by_topic


def kept(reader: LoopReader) -> bool:
    """Whether what was read of `state` since the last call says new priorities."""
    found = [decode(TopicKind.STATE, received.header) for received in reader.read(500, timedelta())]
    return any(isinstance(record, Reprioritised) for record in found)


@pytest.mark.parametrize("committed", [True, False])
def test_what_got_another_priority_runs_first_under_the_next_owner(pool: Pool, committed: bool) -> None:
    first, owners = pool.scheduler("one"), Ownerships(pool)
    ids = pool.submit(5)
    turn_until(pool, [first.turn], lambda: owners.open_by("one"))
    pool.producer.flush(timedelta(seconds=10))
    selection = Selection(tenant="a", id_prefix=ids[-1], stands_before=ends_now(pool))
    pool.tell(Reprioritise(selection=selection, priority=5))
    if committed:
        reader = pool.bus.loop_reader("test")
        pool.assign(reader, {pool.place(TopicKind.STATE): START})
        turn_until(pool, [first.turn], lambda: kept(reader))
        reader.close()
    del first  # killed
    newer = pool.submit(1)
    worker, second = LiveWorker(pool, limit=1), pool.scheduler("two")
    turns = [second.turn, worker.turn]
    turn_until(pool, turns, lambda: len({result.id for result in pool.results_read()}) == 6)
    ran = [command.request.id for command in worker.commands if isinstance(command, Run)]
    assert ran[0] == ids[-1]
    assert Counter(ran) == Counter([*ids, *newer])
    second.stop()
    owners.close()
    worker.close()


def test_a_cancel_of_many_means_what_stood_before_it_though_its_owner_dies_and_clocks_are_wrong(
    pool: Pool,
) -> None:
    first, owners = pool.scheduler("one"), Ownerships(pool)
    turn_until(pool, [first.turn], lambda: owners.open_by("one"))
    ids = pool.submit(20)
    before_ms = pool.clock.now().wall_ms - 3_600_000  # as on a machine whose clock is an hour behind
    pool.producer.flush(timedelta(seconds=10))
    order = CancelMatching(selection=Selection(stands_before=ends_now(pool)), before_ms=before_ms)
    pool.tell(order)
    newer = pool.submit(3)
    turn_until(pool, [first.turn], lambda: len(pool.results_read()) > 0)
    del first  # killed
    worker, second = LiveWorker(pool), pool.scheduler("two")
    turn_until(
        pool,
        [second.turn, worker.turn],
        lambda: len({result.id for result in pool.results_read()}) == len(ids) + len(newer),
    )
    statuses = {result.id: result.status for result in pool.results}
    assert statuses == {**dict.fromkeys(ids, Status.CANCELLED), **dict.fromkeys(newer, Status.SUCCEEDED)}
    second.stop()
    owners.close()
    worker.close()
