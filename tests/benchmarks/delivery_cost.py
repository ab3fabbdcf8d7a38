"""What result-delivery costs: CPU of its process for each request, at a steady rate and working off a backlog.

    python -m tests.benchmarks.delivery_cost [REQUESTS]

Writes each request's three records (accepted, result, attempt) to a real broker; the database is SQLite. CPU is user + system
time from /proc, the start of the process left out.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psutil

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.bus.messages import Message
from headrace.contracts.topics import TopicKind
from headrace.devkit.broker import choose_broker
from tests.support.delivery import apply, produce, rows, topic
from tests.support.entry import count_of, parser_of
from tests.support.eventually import eventually
from tests.support.results import (
    attempt,
    attempt_message,
    request,
    request_message,
    result,
    result_message,
)

RATE, PREFIX, LONG = 200, "headrace.", timedelta(seconds=180)
POLICY = '[pools.main]\nmodels = {small = "small"}\n'
BODY = b'{"choices":[{"message":{"role":"assistant","content":"a small answer"}}]}' * 4


def records_of(number: int) -> list[Message]:
    """In the order in which they are written."""
    partition = number % 8
    return [
        request_message(
            topic(TopicKind.REQUESTS, PREFIX), request(number, partition=partition, body=BODY), BODY
        ),
        result_message(
            topic(TopicKind.RESULTS, PREFIX), result(number, partition=partition, body=BODY), BODY
        ),
        attempt_message(topic(TopicKind.ATTEMPTS, PREFIX), attempt(number, partition=partition)),
    ]


class Delivery:
    """The process and its CPU."""

    def __init__(self, kafka: str, folder: Path) -> None:
        self.database = f"sqlite:///{folder / 'results.db'}"
        policy = folder / "policy.toml"
        policy.write_text(POLICY)
        env = {
            "HEADRACE_KAFKA": kafka,
            "HEADRACE_PREFIX": PREFIX,
            "HEADRACE_POLICY": str(policy),
            "HEADRACE_RESULT_DELIVERY_DATABASE": self.database,
            "HEADRACE_LOG_LEVEL": "warning",
        }
        self._child = subprocess.Popen(
            [sys.executable, "-m", "headrace.result_delivery"], env={**os.environ, **env}
        )

    @property
    def cpu_seconds(self) -> float:
        times = psutil.Process(self._child.pid).cpu_times()
        return times.user + times.system

    def all_done(self, count: int) -> bool:
        """Whether so many results are stored and told."""
        try:
            done = rows(self.database, "SELECT (SELECT count(*) FROM results), (SELECT count(*) FROM outbox)")
        except Exception:  # noqa: BLE001 it has no tables yet
            return False
        return bool(done == [(count, 0)])

    def end(self) -> None:
        self._child.terminate()
        self._child.wait(30)


def steady(bus: KafkaBus, delivery: Delivery, begin: int, count: int) -> None:
    """So many requests at RATE, each record when it would be written."""
    producer = bus.loop_producer("bench", delivery_timeout=timedelta(seconds=20))
    with closing(producer):
        began = time.monotonic()
        for number in range(count):
            for message in records_of(begin + number):
                producer.send(message, None)
            ahead = began + number / RATE - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            producer.confirmations()
        producer.flush(timedelta(seconds=20))
    eventually(lambda: delivery.all_done(begin + count), "all are told", LONG)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as name, choose_broker() as broker:
        folder, bus = Path(name), KafkaBus(KafkaConnection(broker.bootstrap))
        apply(bus, PREFIX)
        delivery = Delivery(broker.bootstrap, folder)
        steady(bus, delivery, 0, 200)
        before = delivery.cpu_seconds
        steady(bus, delivery, 200, count)
        print_cost(f"at {RATE} requests/s", delivery.cpu_seconds - before, count)
        delivery.end()
        produce(
            bus,
            (message for number in range(200 + count, 200 + 3 * count) for message in records_of(number)),
        )
        began = time.monotonic()
        delivery = Delivery(broker.bootstrap, folder)
        eventually(lambda: delivery.all_done(200 + 3 * count), "the backlog is worked off", LONG)
        print_cost("working off a backlog, start included", delivery.cpu_seconds, 2 * count)
        sys.stdout.write(f"{2 * count / (time.monotonic() - began):.0f} requests/s\n")
        delivery.end()


def print_cost(what: str, seconds: float, count: int) -> None:
    """One line."""
    sys.stdout.write(f"{what}: {seconds / count * 1e6:.0f} us CPU a request\n")


if __name__ == "__main__":
    main(
        count_of(
            parser_of(__spec__, __doc__), "requests", 5_000, "at a steady rate; twice as many in the backlog"
        )
    )
