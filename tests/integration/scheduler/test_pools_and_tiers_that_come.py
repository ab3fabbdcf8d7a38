"""Another policy with other pools or tiers, while a scheduler runs: it takes its pools over anew, and nothing runs twice."""

from collections import Counter

from msgspec.structs import replace

from headrace.bus.topic_check import apply_topics
from headrace.contracts.policy import Policy, TierPolicy
from headrace.contracts.topics import required_topics
from tests.support.scheduler.live import Ownerships, Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import POOL


def make_topics(pool: Pool, policy: Policy) -> None:
    topics = pool.bus.topics("apply")
    counts = policy.topics.counts()
    apply_topics(topics, required_topics(pool.names, counts, pools=policy.pools, tiers=policy.tiers))
    topics.close()


def test_a_tier_comes_and_goes_under_work_and_what_was_accepted_is_served_once(pool: Pool) -> None:
    worker, owners = LiveWorker(pool), Ownerships(pool)
    scheduler, old = pool.scheduler("one"), pool.policy
    turns = [scheduler.turn, worker.turn]
    turn_until(pool, turns, lambda: owners.open_by("one"))
    worker.holding = True
    ids = pool.submit(8)
    turn_until(pool, turns, lambda: sum(worker.ran.values()) == worker.limit)

    more = replace(old, tiers={**old.tiers, "bulk": TierPolicy(weight=2)})
    make_topics(pool, more)
    scheduler.adopt(more)
    turn_until(pool, turns, lambda: owners.all()[-1].epoch == 2 and owners.open_by("one"))
    ids += pool.submit(4, tier="bulk")
    scheduler.adopt(old)
    turn_until(pool, turns, lambda: len(owners.all()) > 0 and owners.open_by("one"))
    worker.holding = False
    turn_until(pool, turns, lambda: len({r.id for r in pool.results_read()}) == len(ids))
    assert worker.ran == Counter(ids), "no change of owner repeats what runs"
    assert Counter(result.id for result in pool.results) == Counter(ids)
    assert {record.epoch for record in owners.all()} == {1, 2}, "what goes takes no new beginning"
    scheduler.stop()
    owners.close()
    worker.close()


def test_a_pool_that_comes_is_owned_and_one_that_goes_stays_so_to_its_end(pool: Pool) -> None:
    worker, owners = LiveWorker(pool), Ownerships(pool)
    scheduler, old = pool.scheduler("one"), pool.policy
    turns = [scheduler.turn, worker.turn]
    turn_until(pool, turns, lambda: owners.open_by("one"))
    more = replace(old, pools={**old.pools, "big": replace(old.pools[POOL], models={"n": "n"})})
    make_topics(pool, more)
    scheduler.adopt(more)
    big = Ownerships(pool, "big")
    turn_until(pool, turns, lambda: big.open_by("one") and owners.open_by("one"))

    worker.holding = True
    ids = pool.submit(6)
    turn_until(pool, turns, lambda: sum(worker.ran.values()) == worker.limit)
    scheduler.adopt(replace(more, pools={"big": more.pools["big"]}))
    worker.holding = False
    turn_until(pool, turns, lambda: len({r.id for r in pool.results_read()}) == len(ids))
    assert worker.ran == Counter(ids)
    assert owners.open_by("one")
    scheduler.stop()
    big.close()
    owners.close()
    worker.close()


def test_what_runs_of_a_tier_that_went_takes_its_slot_under_a_scheduler_that_starts_without_it(
    pool: Pool,
) -> None:
    worker, owners = LiveWorker(pool), Ownerships(pool)
    one = pool.scheduler("one")
    turn_until(pool, [one.turn, worker.turn], lambda: owners.open_by("one"))
    worker.holding = True
    ids = pool.submit(3, tier="interactive")
    turn_until(pool, [one.turn, worker.turn], lambda: sum(worker.ran.values()) == 3)
    one.stop()
    pool.policy = replace(pool.policy, tiers={"batch": pool.policy.tiers["batch"]})
    two = pool.scheduler("two")
    ids += pool.submit(5)
    turns = [two.turn, worker.turn]
    turn_until(pool, turns, lambda: owners.open_by("two") and sum(worker.ran.values()) >= worker.limit)
    seen = len(owners.all())
    turn_until(pool, turns, lambda: len(owners.all()) >= seen + 3)
    assert sum(worker.ran.values()) == worker.limit, "a second later, too"
    worker.holding = False
    turn_until(pool, turns, lambda: len({r.id for r in pool.results_read()}) == len(ids))
    assert worker.ran == Counter(ids)
    two.stop()
    owners.close()
    worker.close()
