"""Which broker to run on: HEADRACE_BROKER = process (default), container or external. Called by tests, CLI, demo.

process    brokers as child processes, with Java and jars of our own: the same on every machine (kafka.py)
container  `docker run` of the apache/kafka image; only on request. Untested where no engine is at hand
external   the user's own, at HEADRACE_BROKER_ADDRESS; never started or stopped by us
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Self

from headrace.devkit.jars import KAFKA_VERSION, Progress
from headrace.devkit.kafka import BrokerFailed, KafkaCluster
from headrace.devkit.kafka_settings import SMALL
from headrace.devkit.ports import LOOPBACK, free_port
from headrace.devkit.probes import kafka_answers, wait_until
from headrace.devkit.started import Broker

BROKER_KINDS = ("process", "container", "external")
IMAGE = f"apache/kafka:{KAFKA_VERSION}"
CONTAINER_WITHIN = timedelta(seconds=90)
EXTERNAL_WITHIN = timedelta(seconds=10)


class ExternalBroker(Broker):
    """The user's own broker."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @property
    def bootstrap(self) -> str:
        """Addresses as clients take them."""
        return self._bootstrap

    def start(self) -> Self:
        """Only looks whether it answers."""
        if not wait_until(lambda: kafka_answers(self.bootstrap), EXTERNAL_WITHIN):
            raise BrokerFailed(
                f"no Kafka answers at {self.bootstrap}: start it, or correct HEADRACE_BROKER_ADDRESS"
            )
        return self

    def stop(self) -> None:
        """Nothing: it is not ours."""


class ContainerBroker(Broker):
    """One broker in a container. Untested: it was written where no container engine was at hand."""

    def __init__(self) -> None:
        self._port = free_port()
        self._container = ""

    @property
    def bootstrap(self) -> str:
        """Address as clients take it."""
        return f"{LOOPBACK}:{self._port}"

    def start(self) -> Self:
        """Raises BrokerFailed with a sentence when no engine answers or the broker does not come up."""
        if shutil.which("docker") is None:
            raise BrokerFailed(
                "HEADRACE_BROKER=container needs the docker program: install it, or leave HEADRACE_BROKER unset"
            )
        self._container = self._docker("run", "--rm", "--detach", *self._publish(), *self._settings(), IMAGE)
        if not wait_until(lambda: kafka_answers(self.bootstrap), CONTAINER_WITHIN):
            last = self._docker("logs", "--tail", "15", self._container)
            self.stop()
            raise BrokerFailed(f"the container of {IMAGE} did not serve within {CONTAINER_WITHIN}:\n{last}")
        return self

    def stop(self) -> None:
        """Removes the container by its id."""
        container, self._container = self._container, ""
        if container:
            self._docker("rm", "--force", container)

    def _publish(self) -> tuple[str, str]:
        return "--publish", f"{LOOPBACK}:{self._port}:9092"

    def _settings(self) -> list[str]:
        settings = {
            **SMALL,
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": "1@localhost:9093",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        }
        return [
            word
            for name, value in settings.items()
            for word in ("--env", f"KAFKA_{name.upper().replace('.', '_')}={value}")
        ]

    def _docker(self, *arguments: str) -> str:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)  # noqa: S607
        if done.returncode:
            raise BrokerFailed(f"docker {arguments[0]} failed: {done.stderr.strip()}. Does the engine run?")
        return done.stdout.strip()


def choose_broker(
    *,
    nodes: int = 1,
    folder: Path | None = None,
    progress: Progress | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Broker:
    """The broker that HEADRACE_BROKER asks for, not started; raises ValueError with a sentence."""
    kind = environ.get("HEADRACE_BROKER") or "process"
    if kind == "process":
        return KafkaCluster(nodes=nodes, folder=folder, progress=progress)
    if kind == "container":
        return ContainerBroker()
    if kind != "external":
        raise ValueError(f"HEADRACE_BROKER is {kind!r}: it can be process, container or external")
    if not (address := environ.get("HEADRACE_BROKER_ADDRESS")):
        raise ValueError(
            "HEADRACE_BROKER=external needs HEADRACE_BROKER_ADDRESS, such as broker.example:9092"
        )
    return ExternalBroker(address)
