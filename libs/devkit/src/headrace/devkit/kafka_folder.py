"""A cluster's folder: who it is, and which of its processes a crash left behind. Called by kafka.

    cluster.json                 cluster id and ports, so that a named folder keeps its address
    owner.json                   who started it, and the broker processes it started
    node-1/server.properties  log4j2.xml  broker.log  data/

A pid alone proves nothing, since pids are given out again: a process is ours only when its start time, too,
is the one noted. Invariant: nothing else is ever signalled.
"""

import base64
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from headrace.devkit.kafka_settings import NodeAddress
from headrace.devkit.ports import free_ports, is_free

END_S = 10
TEMPORARY = "headrace-kafka-"


class ProcessMark(msgspec.Struct, frozen=True):
    """One process for ever: its pid and its start time in seconds, as the system tells it."""

    pid: int
    started_s: float


class Owner(msgspec.Struct, frozen=True):
    """owner.json: the process that started the cluster, and its brokers."""

    starter: ProcessMark
    brokers: list[ProcessMark]


class Cluster(msgspec.Struct, frozen=True):
    """cluster.json: what stays over restarts."""

    cluster_id: str
    nodes: list[NodeAddress]


class FolderInUse(RuntimeError):  # noqa: N818 - reads as what happened
    """Another living process runs a cluster in this folder; the message names it."""


def mark_of(pid: int) -> ProcessMark:
    """The mark of a process that runs now; raises psutil.NoSuchProcess."""
    return ProcessMark(pid, psutil.Process(pid).create_time())


def process_of(mark: ProcessMark) -> psutil.Process | None:
    """The marked process, or None when it has ended (whoever has its pid now)."""
    try:
        process = psutil.Process(mark.pid)
        same = abs(process.create_time() - mark.started_s) < 0.01
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def write_whole(path: Path, value: msgspec.Struct) -> None:
    """Replaces `path` by `value` as JSON, at once or not at all."""
    scratch = path.with_suffix(f".{os.getpid()}.new")
    scratch.write_bytes(msgspec.json.encode(value))
    scratch.replace(path)


def note_owner(folder: Path, broker_pids: Iterable[int]) -> None:
    """Writes owner.json for this process and these brokers."""
    brokers = [mark_of(pid) for pid in broker_pids if psutil.pid_exists(pid)]
    write_whole(folder / "owner.json", Owner(mark_of(os.getpid()), brokers))


def clear_leftovers(folder: Path) -> list[int]:
    """Ends the brokers that a dead starter left in `folder`; returns their pids.

    Raises FolderInUse when the starter lives.
    """
    path = folder / "owner.json"
    if not path.exists():
        return []
    owner = msgspec.json.decode(path.read_bytes(), type=Owner)
    if process_of(owner.starter):
        raise FolderInUse(
            f"{folder} is used by the cluster of process {owner.starter.pid}: stop that, or name another folder"
        )
    left = [process for mark in owner.brokers if (process := process_of(mark))]
    for process in left:
        process.kill()
    psutil.wait_procs(left, timeout=END_S)
    path.unlink()
    return [process.pid for process in left]


def sweep_temporary(parent: Path) -> None:
    """Removes from `parent` the temporary clusters whose starters died without stopping them."""
    for note in parent.glob(f"{TEMPORARY}*/owner.json"):
        # What lives, is another user's or unreadable is not ours to judge.
        with suppress(FolderInUse, OSError, psutil.Error, msgspec.DecodeError):
            clear_leftovers(note.parent)
            shutil.rmtree(note.parent, ignore_errors=True)


def cluster_in(folder: Path, nodes: int) -> Cluster:
    """The cluster of this folder, made now if there is none; its ports change only if taken meanwhile."""
    path = folder / "cluster.json"
    found = msgspec.json.decode(path.read_bytes(), type=Cluster) if path.exists() else None
    if found and len(found.nodes) != nodes:
        raise ValueError(
            f"{folder} holds a cluster of {len(found.nodes)} nodes, not {nodes}: name another folder"
        )
    if found and all(is_free(port) for one in found.nodes for port in (one.port, one.controller_port)):
        return found
    ports = free_ports(2 * nodes)
    addresses = [NodeAddress(n, ports[2 * n - 2], ports[2 * n - 1]) for n in range(1, nodes + 1)]
    cluster_id = found.cluster_id if found else cluster_id_of(uuid.uuid4())
    cluster = Cluster(cluster_id, addresses)
    write_whole(path, cluster)
    return cluster


def cluster_id_of(drawn: uuid.UUID) -> str:
    """A cluster id as Kafka writes them: 22 characters, the first never `-`, which its tool takes for an option."""
    first, *rest = drawn.bytes
    return base64.urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")
