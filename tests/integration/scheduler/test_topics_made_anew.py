"""A topic that is deleted and made anew under a pool, or while nobody owns it, stops the pool: no offset is taken on trust.

On a real broker alone: the bus in memory deletes no topics.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.topic_check import apply_topics
from headrace.contracts.topics import TopicKind, required_topics
from headrace.scheduler.service import NoPoolLeftError, Scheduler
from tests.support.eventually import eventually
from tests.support.scheduler.live import Ownerships, Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import POOL, policy

pytestmark = pytest.mark.kafka


@pytest.fixture
def pool(kafka: str, prefix: str) -> Iterator[Pool]:
    made = Pool(KafkaBus(KafkaConnection(kafka)), prefix, policy())
    yield made
    made.close()


def make_anew(pool: Pool, kafka: str, topic: str) -> None:
    topics = pool.bus.topics("test")
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([topic])[topic].result(20)
    eventually(lambda: not topics.describe([topic]), "the topic is gone")
    counts = pool.policy.topics.counts()
    apply_topics(topics, required_topics(pool.names, counts, pools=[POOL], tiers=pool.policy.tiers))
    topics.close()


def refuses(pool: Pool, schedulers: list[Scheduler], topic: str) -> None:
    for scheduler in schedulers:
        with pytest.raises(NoPoolLeftError, match=rf"{topic}.*made anew"):
            turn_until(pool, [scheduler.turn], lambda: False)
        scheduler.stop()


@pytest.mark.parametrize("kind", [TopicKind.REQUESTS, TopicKind.ATTEMPTS, TopicKind.STATE])
def test_a_topic_made_anew_under_a_living_owner_stops_it_and_whoever_stands_by(
    pool: Pool, kafka: str, kind: TopicKind
) -> None:
    worker, owner, standby = (
        LiveWorker(pool),
        pool.scheduler("one", ("one", "two")),
        pool.scheduler("two", ("one", "two")),
    )
    pool.submit(3)
    turn_until(pool, [owner.turn, standby.turn, worker.turn], lambda: len(pool.results_read()) == 3)
    ran = dict(worker.ran)
    topic = pool.place(kind, 0, "batch").topic
    make_anew(pool, kafka, topic)
    refuses(pool, [owner, standby], topic)
    assert dict(worker.ran) == ran
    worker.close()


def test_a_topic_made_anew_while_nobody_owned_the_pool_is_found_at_the_claim(pool: Pool, kafka: str) -> None:
    worker, owner, owners = LiveWorker(pool), pool.scheduler("one"), Ownerships(pool)
    pool.submit(3)
    turn_until(pool, [owner.turn, worker.turn], lambda: len(pool.results_read()) == 3)
    owner.stop()
    turn_until(pool, [worker.turn], lambda: owners.all()[-1].released)
    topic = pool.place(TopicKind.CONTROL).topic
    make_anew(pool, kafka, topic)
    refuses(pool, [pool.scheduler("two")], topic)
    worker.close()
    owners.close()
