"""The real broker comes up, keeps data, and dies with its starter."""

import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.devkit import kafka_folder
from headrace.devkit.kafka import BrokerFailed, KafkaCluster
from headrace.devkit.ports import LOOPBACK, free_port, free_ports

pytestmark = pytest.mark.kafka

STARTER = """
import sys, time
from pathlib import Path
from headrace.devkit.kafka import KafkaCluster
cluster = KafkaCluster(folder=Path(sys.argv[1]), settings={"broker.session.timeout.ms": "3000"})
cluster.start()
print(cluster.bootstrap, cluster.pid(), flush=True)
time.sleep(600)
"""


def make_topic(bootstrap: str, topic: str, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(30)


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert errors == [None]


def values(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = [message for _ in range(count) if (message := consumer.poll(30))]
    consumer.close()
    return [message.value() for message in found]


def test_the_shared_broker_carries_a_record_and_makes_no_topic_by_itself(kafka: str, prefix: str) -> None:
    make_topic(kafka, f"{prefix}one")
    produce(kafka, f"{prefix}one", b"hello")
    assert values(kafka, f"{prefix}one", 1) == [b"hello"]
    topics = AdminClient({"bootstrap.servers": kafka}).list_topics(f"{prefix}two", timeout=10).topics
    assert topics[f"{prefix}two"].error is not None


def test_a_port_that_was_taken_between_finding_and_binding_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as thief:
        thief.bind((LOOPBACK, 0))
        thief.listen()
        taken = thief.getsockname()[1]
        found = iter([[taken, free_port()], free_ports(2)])
        monkeypatch.setattr(kafka_folder, "free_ports", lambda _: next(found))
        cluster = KafkaCluster().start()
        try:
            assert str(taken) not in cluster.bootstrap
            make_topic(cluster.bootstrap, "one")
        finally:
            cluster.stop()


def test_a_named_folder_keeps_data_over_kill_9_of_starter_and_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        bootstrap, pid = starter.stdout.readline().split()
        make_topic(bootstrap, "kept")
        produce(bootstrap, "kept", b"once")
        starter.kill()
    # At once, while the guard may still be ending the old broker: the folder's new owner sees to it.
    with KafkaCluster(folder=tmp_path, settings={"broker.session.timeout.ms": "3000"}) as cluster:
        assert not psutil.pid_exists(int(pid))
        assert cluster.bootstrap == bootstrap
        assert values(bootstrap, "kept", 1) == [b"once"]


def test_three_nodes_serve_on_when_one_is_killed() -> None:
    settings = {"broker.session.timeout.ms": "3000"}
    with KafkaCluster(nodes=3, settings=settings) as cluster:
        make_topic(cluster.bootstrap, "all", replicas=3)
        produce(cluster.bootstrap, "all", b"before")
        cluster.kill(2)
        produce(cluster.bootstrap, "all", b"after")
        assert values(cluster.bootstrap, "all", 2) == [b"before", b"after"]
        folder, pids = cluster.folder, [cluster.pid(node) for node in (1, 2, 3)]
    assert not folder.exists()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_broker_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(BrokerFailed, match=r"num\.io\.threads"),
        KafkaCluster(settings={"num.io.threads": "none"}),
    ):
        pass
