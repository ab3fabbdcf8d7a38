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
def process(
    kafka: str, prefix: str, database: str, *command: str
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The real process, or another module in its place, and the root of its probes."""
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
    child = subprocess.Popen([sys.executable, "-m", *(command or ["headrace.result_delivery"])], env=env)
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


def events(bus: KafkaBus, prefix: str) -> list[str]:
    found = records_in(bus, topic(TopicKind.EVENTS, prefix))
    return [dict(record.headers)["ce_id"].decode() for record in found]


@pytest.mark.parametrize("dies_at", [TopicKind.REPLIES, TopicKind.EVENTS])
def test_killed_between_commit_and_send_its_next_life_sends_what_was_committed(
    bus: KafkaBus, kafka: str, prefix: str, tmp_path: Path, dies_at: TopicKind
) -> None:
    database = f"sqlite:///{tmp_path / 'results.db'}"
    produce(bus, answers(prefix, range(4)))
    with process(kafka, prefix, database, "tests.support.dying_delivery", topic(dies_at, prefix)) as (
        dying,
        _,
    ):
        assert dying.wait(30) == -signal.SIGKILL
    committed = stored(database)
    assert committed
    assert events(bus, prefix) == []
    waiting = rows(database, "SELECT count(*) FROM outbox")
    assert waiting == [(2 * len(committed),)], "what nobody has confirmed stays"
    produce(bus, answers(prefix, range(4), attempt=2))
    with process(kafka, prefix, database):
        eventually(lambda: len(stored(database)) == 4, "the rest is committed")
        eventually(lambda: rows(database, "SELECT count(*) FROM outbox") == [(0,)], "all is told")
    assert told(bus, prefix) == set(ids(range(4)))
    assert sorted(events(bus, prefix)) == sorted(f"{each}-succeeded" for each in ids(range(4)))
    assert rows(database, "SELECT DISTINCT attempt_sequence FROM results") == [(1,)]


def test_a_member_that_was_paused_while_its_partitions_moved_changes_nothing(
    bus: KafkaBus, kafka: str, prefix: str, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path / 'results.db'}"
    with process(kafka, prefix, database) as (zombie, url):
        eventually(lambda: ready(url), "it is ready")
        produce(bus, answers(prefix, range(40)))
        eventually(lambda: len(stored(database)) == 40, "it commits")
        zombie.send_signal(signal.SIGSTOP)
        produce(bus, answers(prefix, range(40, 80)))
        with process(kafka, prefix, database) as (_, other):
            eventually(lambda: ready(other), "another one is there")
            eventually(lambda: len(stored(database)) == 80, "it took over")
            produce(bus, answers(prefix, range(80), attempt=2))
            zombie.send_signal(signal.SIGCONT)
            produce(bus, answers(prefix, range(80, 120)))
            eventually(lambda: len(stored(database)) == 120, "both go on")
            eventually(lambda: rows(database, "SELECT count(*) FROM outbox") == [(0,)], "all is told")
            assert zombie.poll() is None, "it lives, as an ordinary member"
    assert stored(database) == ids(range(120))
    assert rows(database, "SELECT DISTINCT attempt_sequence FROM results") == [(1,)]
    assert told(bus, prefix) == set(ids(range(120)))


def turn_all(members: list[Member]) -> None:
    for member in members:
        member.loop.turn()


def test_a_storm_of_members_that_come_and_go_loses_and_repeats_nothing(
    bus: KafkaBus, prefix: str, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path / 'results.db'}"
    members = [Member(bus, database, f"m{number}", prefix) for number in range(2)]
    for wave in range(8):
        produce(bus, answers(prefix, range(20 * wave, 20 * wave + 20)))
        produce(bus, answers(prefix, range(20 * wave), attempt=2))
        turn_all(members)
        leaving = members.pop(0)
        if wave % 2:
            leaving.leave()
        else:
            leaving.loop.stop()  # nothing is drained
        members.append(Member(bus, database, f"m{wave + 2}", prefix))
        for _ in range(3):
            turn_all(members)

    def all_is_told() -> bool:
        turn_all(members[1:])
        empty = rows(database, "SELECT count(*) FROM outbox") == [(0,)]
        return empty and len(stored(database)) == 160

    members[0].turn_until(all_is_told, "all is committed and told")
    for member in members:
        member.leave()
    assert stored(database) == ids(range(160))
    assert rows(database, "SELECT DISTINCT attempt_sequence FROM results") == [(1,)]
    assert told(bus, prefix) == set(ids(range(160)))


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
