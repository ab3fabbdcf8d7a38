"""All services as processes on the run's broker, for end-to-end tests. Called by tests/e2e/conftest.py.

Invariant: each stack has a topic prefix and a folder of its own, so that tests share nothing but the broker.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.request import urlopen

from confluent_kafka import Consumer, TopicPartition

from headrace.cli.stack.plan import Backend, policy_for
from headrace.cli.stack.processes import Stack
from headrace.contracts.codec import HEADER

WEIGHTS = {"atlas": 2, "birch": 1, "cedar": 1}
FAKE = policy_for(WEIGHTS, {"main": {"fake": "fake", "small": "fake"}}, queue_timeout="10m")
"""Policy for the fake engine: one pool, its model under its own name and under an alias."""


@contextmanager
def running(
    folder: Path, kafka: str, prefix: str, backends: Sequence[Backend], policy: str = FAKE, **more: Any
) -> Iterator[Stack]:
    """A stack that is ready, and stopped in the end whatever happens."""
    stack = Stack(folder=folder, policy=policy, backends=backends, bootstrap=kafka, prefix=prefix, **more)
    stack.start()
    try:
        yield stack
    finally:
        stack.stop()


def replace_policy(stack: Stack, text: str) -> None:
    """In one step, as those do it who know that others read the file."""
    beside = stack.policy_path.with_suffix(".new")
    beside.write_text(text)
    beside.rename(stack.policy_path)


def sample(stack: Stack, service: str, name: str) -> float:
    """A metric of a service, whatever its labels: the sum over them."""
    with urlopen(f"{stack.services[service].health_url}/metrics", timeout=30) as page:  # noqa: S310 our own process
        lines = page.read().decode().splitlines()
    found = [float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
    assert found, f"{service} has no metric {name}"
    return sum(found)


def rows_of(
    stack: Stack, query: str = "SELECT id, tenant, tier, status FROM results"
) -> list[tuple[Any, ...]]:
    """What the database says; the file is opened for this query alone."""
    with closing(sqlite3.connect(f"file:{stack.database}?mode=ro", uri=True)) as database:
        return database.execute(query).fetchall()


def headers_in(stack: Stack, topic: str) -> list[dict[str, bytes]]:
    """The headers of every record of a topic (its name without the prefix), read by a client that isn't ours."""
    consumer = Consumer(
        {
            "bootstrap.servers": stack.bootstrap,
            "group.id": "test-reads-everything",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )
    with closing(consumer):
        name = stack.prefix + topic
        partitions = consumer.list_topics(name, timeout=10).topics[name].partitions
        ends = {p: consumer.get_watermark_offsets(TopicPartition(name, p), timeout=10) for p in partitions}
        consumer.assign([TopicPartition(name, p, low) for p, (low, high) in ends.items() if high > low])
        missing = sum(high - low for low, high in ends.values())
        found: list[dict[str, bytes]] = []
        while len(found) < missing:
            message = consumer.poll(10)
            assert message is not None, f"{name}: {missing - len(found)} records didn't come"
            assert message.error() is None, message.error()
            found.append(cast("dict[str, bytes]", dict(message.headers() or ())))
        return found


def records_in(stack: Stack, topic: str) -> list[bytes]:
    """The `headrace` headers of a topic."""
    return [headers[HEADER] for headers in headers_in(stack, topic)]
