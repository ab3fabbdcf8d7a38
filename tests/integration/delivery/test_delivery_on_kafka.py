"""result-delivery as a process, and as two members, on a real Kafka."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Message
from headrace.contracts.codec import HEADER, decode
from headrace.contracts.topics import TopicKind
from tests.support.delivery import Member, apply, produce, records_in, rows, topic
from tests.support.eventually import eventually
from tests.support.results import request_id, result, result_message

pytestmark = pytest.mark.kafka


def answers(prefix: str, numbers: range, attempt: int = 1) -> list[Message]:
    name = topic(TopicKind.RESULTS, prefix)
    return [
        result_message(name, result(n, partition=n % 8, attempt=attempt), b'{"n":%d}' % n) for n in numbers
    ]


def ids(numbers: range) -> list[str]:
    return sorted(request_id(number, number % 8) for number in numbers)


def stored(database: str) -> list[str]:
    return sorted(row[0] for row in rows(database, "SELECT id FROM results"))


def told(bus: KafkaBus, prefix: str) -> set[str]:
    return {
        decode(TopicKind.REPLIES, record.header).id
        for record in records_in(bus, topic(TopicKind.REPLIES, prefix))
    }


@pytest.fixture
def bus(kafka: str, prefix: str) -> KafkaBus:
    bus = KafkaBus(KafkaConnection(kafka))
    apply(bus, prefix)
    return bus


@contextmanager
def process(kafka: str, prefix: str, database: str) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The real process and the root of its probes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")},
        "HEADRACE_KAFKA": kafka,
        "HEADRACE_PREFIX": prefix,
        "HEADRACE_RESULT_DELIVERY_DATABASE": database,
        "HEADRACE_HEALTH_PORT": str(port),
    }
    child = subprocess.Popen([sys.executable, "-m", "headrace.result_delivery"], env=env)
    try:
        yield child, f"http://127.0.0.1:{port}"
    finally:
        child.kill()
        child.wait(20)


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:  # noqa: S310 loopback
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def test_a_killed_process_loses_no_result_and_its_successor_goes_on(
    bus: KafkaBus, kafka: str, prefix: str, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path / 'results.db'}"
    with process(kafka, prefix, database) as (first, url):
        eventually(lambda: ready(url), "it is ready")
        produce(bus, answers(prefix, range(200)))
        eventually(lambda: stored(database), "it commits")
        first.kill()
    produce(bus, [*answers(prefix, range(200), attempt=2), *answers(prefix, range(200, 300))])
    with process(kafka, prefix, database) as (second, url):
        eventually(lambda: len(stored(database)) == 300, "the rest is committed")
        eventually(lambda: rows(database, "SELECT count(*) FROM outbox") == [(0,)], "all is told")
        eventually(lambda: ready(url), "it is ready")
        second.send_signal(signal.SIGTERM)
        assert second.wait(20) == 0
    assert stored(database) == ids(range(300))
    assert told(bus, prefix) == set(ids(range(300)))
    firsts = rows(database, "SELECT count(*) FROM results WHERE attempt_sequence = 1")
    assert firsts == [(300,)]


def test_two_members_share_the_partitions_and_hand_over(bus: KafkaBus, prefix: str, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'results.db'}"
    first, second = Member(bus, database, "one", prefix), Member(bus, database, "two", prefix)

    def both_have_some() -> bool:
        second.loop.turn()
        return all(member.metric("assigned_partitions") == 20 for member in (first, second))

    first.turn_until(both_have_some, "each has half of the partitions")
    produce(
        bus,
        [
            *answers(prefix, range(80)),
            Message(topic(TopicKind.RESULTS, prefix), 2, b"raw", ((HEADER, b"!"),)),
        ],
    )

    def half_is_there() -> bool:
        second.loop.turn()
        return len(stored(database)) >= 40

    first.turn_until(half_is_there, "they commit")
    first.leave()
    produce(bus, answers(prefix, range(120), attempt=2))
    second.turn_until(lambda: len(stored(database)) == 120, "the other one takes over")
    second.turn_until(lambda: rows(database, "SELECT count(*) FROM outbox") == [(0,)], "all is told")
    assert stored(database) == ids(range(120))
    assert told(bus, prefix) == set(ids(range(120)))
    assert {record.value for record in records_in(bus, topic(TopicKind.DLQ, prefix))} == {b"raw"}
    second.leave()
