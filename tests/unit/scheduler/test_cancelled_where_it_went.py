"""A cancel that its caller's gateway sends to the pool that the request went to, too: the first pool may have no owner."""

from headrace.contracts.lifecycle import Status
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from tests.support.scheduler.two_pools import AWAY, HOME, PARTITION, THIRD, ObedientWorker, TwoPools

BEGIN_MS = 1_000


def has_gone(pools: TwoPools) -> bool:
    return any(isinstance(each, RequestRecord) for each in pools.log(TopicKind.REQUESTS, AWAY, PARTITION))


def without_an_owner(pools: TwoPools) -> None:
    """Home's dies, and nobody takes over."""
    pools.owners[HOME].crash()
    pools.paused |= {pools.owners[HOME], pools.standby}


def test_a_cancel_reaches_its_request_while_its_first_pool_has_no_owner_whenever_that_died() -> None:
    for at_ms in range(BEGIN_MS - 100, BEGIN_MS + 2_000, 100):
        pools = TwoPools(at_ms)
        pools.workers[0].runs_ms = 30_000
        record = pools.submit()
        pools.orders += [(BEGIN_MS, record.id, AWAY)]
        pools.run(at_ms)
        without_an_owner(pools)
        pools.cancel(record, noted=True)
        pools.run(3_000)
        assert pools.results() == ({record.id: [Status.CANCELLED]} if has_gone(pools) else {})
        pools.paused.clear()
        pools.settle()
        assert (at_ms, pools.wrong([record])) == (at_ms, []), "who takes home over then changes nothing"
        assert pools.results() == {record.id: [Status.CANCELLED]}


def test_it_follows_a_request_that_goes_on_from_there_meanwhile() -> None:
    pools = TwoPools(owned=(HOME, AWAY, THIRD))
    pools.workers = [ObedientWorker(pools.world, THIRD, runs_ms=60_000)]
    record = pools.submit()
    pools.orders += [(BEGIN_MS, record.id, AWAY)]
    pools.run(3_000)
    assert has_gone(pools)
    without_an_owner(pools)
    pools.orders += [(3_000, record.id, THIRD)]
    pools.run(100)
    pools.cancel(record, noted=True)
    pools.run(6_000)
    assert pools.results() == {record.id: [Status.CANCELLED]}
