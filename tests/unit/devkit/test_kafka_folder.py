"""Leftovers are cleared by pid and start time, and nothing else is touched."""

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from headrace.devkit.broker import ContainerBroker, ExternalBroker, choose_broker
from headrace.devkit.kafka import KafkaCluster
from headrace.devkit.kafka_folder import (
    FolderInUse,
    Owner,
    ProcessMark,
    clear_leftovers,
    cluster_id_of,
    cluster_in,
    mark_of,
    note_owner,
    write_whole,
)
from headrace.devkit.leash import Child

DEAD = ProcessMark(pid=os.getpid(), started_s=1.0)
SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


def test_a_broker_left_by_a_dead_starter_is_ended(tmp_path: Path) -> None:
    with Child(SLEEP) as broker:
        write_whole(tmp_path / "owner.json", Owner(DEAD, [mark_of(broker.pid)]))
        assert clear_leftovers(tmp_path) == [broker.pid]
        assert broker.wait(timedelta(seconds=10)) == 128 + signal.SIGKILL
    assert clear_leftovers(tmp_path) == []


def test_a_pid_given_to_someone_else_is_left_alone(tmp_path: Path) -> None:
    with Child(SLEEP) as someone:
        mark = ProcessMark(someone.pid, mark_of(someone.pid).started_s - 60)
        write_whole(tmp_path / "owner.json", Owner(DEAD, [mark]))
        assert clear_leftovers(tmp_path) == []
        assert someone.alive


def test_a_folder_whose_starter_lives_is_refused(tmp_path: Path) -> None:
    note_owner(tmp_path, ())
    with pytest.raises(FolderInUse, match=f"used by the cluster of process {os.getpid()}"):
        clear_leftovers(tmp_path)


def test_a_folder_keeps_its_cluster_and_ports(tmp_path: Path) -> None:
    assert cluster_in(tmp_path, 3) == cluster_in(tmp_path, 3)
    with pytest.raises(ValueError, match="holds a cluster of 3 nodes, not 1"):
        cluster_in(tmp_path, 1)


def test_the_broker_is_chosen_by_the_environment() -> None:
    assert isinstance(choose_broker(environ={}), KafkaCluster)
    assert isinstance(choose_broker(environ={"HEADRACE_BROKER": "container"}), ContainerBroker)
    external = choose_broker(environ={"HEADRACE_BROKER": "external", "HEADRACE_BROKER_ADDRESS": "b:9092"})
    assert isinstance(external, ExternalBroker)
    assert external.bootstrap == "b:9092"


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"HEADRACE_BROKER": "docker"}, "can be process, container or external"),
        ({"HEADRACE_BROKER": "external"}, "needs HEADRACE_BROKER_ADDRESS"),
    ],
)
def test_a_wrong_choice_gets_a_sentence(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        choose_broker(environ=environ)


def test_two_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="1 or 3 nodes, not 2"):
        KafkaCluster(nodes=2)


def test_no_cluster_id_looks_like_an_option() -> None:
    assert {cluster_id_of(UUID(bytes=bytes([first] * 16)))[0] for first in range(256)}.isdisjoint("-_")
    assert len(cluster_id_of(UUID(int=2**128 - 1))) == 22
