"""A log that lost its end and has grown beyond the old positions again: every offset is there, and none is what it was."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Message
from headrace.contracts.partitions import partition_of
from headrace.contracts.topics import TopicKind
from headrace.devkit.kafka import KafkaCluster
from headrace.scheduler.service import NoPoolLeftError
from tests.support.scheduler.live import Ownerships, Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import policy

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(folder=tmp_path / "kafka") as made:
        yield made


def cut(broker: KafkaCluster, folder: Path, topic: str, partition: int) -> None:
    """Kill the broker, lose the log but for its first records, start it again: a new leader epoch begins."""
    broker.kill()
    (log,) = folder.rglob(f"{topic}-{partition}/00000000000000000000.log")
    with log.open("r+b") as file:
        head = file.read(12)
        file.truncate(12 + int.from_bytes(head[8:12], "big"))  # the first batch alone
    broker.restart()


@pytest.mark.parametrize("kind", [TopicKind.REQUESTS, TopicKind.ATTEMPTS])
def test_a_log_that_lost_its_end_and_grew_anew_stops_the_pool(
    broker: KafkaCluster, tmp_path: Path, prefix: str, kind: TopicKind
) -> None:
    pool = Pool(KafkaBus(KafkaConnection(broker.bootstrap)), prefix, policy())
    worker, first, owners = LiveWorker(pool), pool.scheduler("one"), Ownerships(pool)
    for number in range(1, 7):  # one batch each
        pool.submit(1)
        turn_until(pool, [first.turn, worker.turn], lambda number=number: len(pool.results_read()) == number)  # type: ignore[misc]
    first.stop()
    turn_until(pool, [], lambda: owners.all()[-1].released)
    where = pool.place(kind, partition_of("a", 2), "batch")
    cut(broker, tmp_path / "kafka", where.topic, where.partition)
    producer = pool.bus.loop_producer("grown", delivery_timeout=timedelta(seconds=30))
    for _ in range(12):
        producer.send(Message(where.topic, where.partition, b"grown"), None)
    assert producer.flush(timedelta(seconds=30)) == 0
    producer.close()
    second = pool.scheduler("two")
    with pytest.raises(
        NoPoolLeftError, match=rf"{where.topic}/{where.partition}.*(gone|lost records|ends at)"
    ):
        turn_until(pool, [second.turn], lambda: False)
    second.stop()
    for each in (worker, owners, pool):
        each.close()


def test_a_mere_change_of_leader_stops_nobody(broker: KafkaCluster, prefix: str) -> None:
    pool = Pool(KafkaBus(KafkaConnection(broker.bootstrap)), prefix, policy())
    worker, first = LiveWorker(pool), pool.scheduler("one")
    pool.submit(3)
    turn_until(pool, [first.turn, worker.turn], lambda: len(pool.results_read()) == 3)
    for number in (4, 5):
        broker.kill()
        broker.restart()
        pool.submit(1)
        turn_until(pool, [first.turn, worker.turn], lambda number=number: len(pool.results_read()) >= number)  # type: ignore[misc]
    first.stop()
    second = pool.scheduler("two")
    pool.submit(1)
    turn_until(pool, [second.turn, worker.turn], lambda: len(pool.results_read()) >= 6)
    second.stop()
    worker.close()
    pool.close()
