"""`headrace pools` and `headrace workers` against running replicas, as their operators use them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.contracts.ids import mint_request_id
from tests.support.command_line import CommandLine
from tests.support.eventually import eventually

POLICY = """
[pools.main.models]
m = "m"
[tenants.a]
"""
PATIENCE = timedelta(seconds=60)
pytestmark = pytest.mark.kafka


@contextmanager
def process(headrace: CommandLine, *arguments: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-m", "headrace.cli", *arguments]
    env = {**headrace.env, **{f"HEADRACE_{name.upper()}": value for name, value in more.items()}}
    made = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield made
    finally:
        made.terminate()
        assert made.wait(30) == 0


def nobodys_request() -> str:
    return mint_request_id(
        b"k" * 32,
        tenant="a",
        pool="main",
        tier="batch",
        partition=0,
        wall_ms=1_800_000_000_000,
        random=bytes(10),
    )


def test_an_operator_sees_a_pool_moves_it_and_drains_a_worker(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    headrace, policy = CommandLine(), tmp_path / "policy.toml"
    policy.write_text(POLICY)
    shared = {"kafka": kafka, "prefix": prefix, "policy": str(policy)}
    replicas = {**shared, "scheduler_replicas": "one,two"}
    headrace.env |= {f"HEADRACE_{name.upper()}": value for name, value in replicas.items()}
    assert headrace.run("topics", "apply").returncode == 0

    def pool() -> Any:
        done = headrace.run("pools", "show", "--json")
        assert done.returncode == 0, done.stderr
        return msgspec.json.decode(done.stdout)[0]

    def worker() -> Any:
        found = msgspec.json.decode(headrace.run("workers", "show", "--json").stdout)
        return found[0]["state"] if found else None

    assert (pool()["owner"], pool()["standbys"]) == (None, [])
    with ExitStack() as running:
        for name in ("one", "two"):
            running.enter_context(process(headrace, "run", "scheduler", name=name))
        ready: Any = eventually(
            lambda: (now := pool())["gate_open"] and len(now["standbys"]) == 1 and now,
            "an owner and a standby",
            PATIENCE,
        )
        other = ready["standbys"][0]["replica"]
        assert {ready["owner"], other} == {"one", "two"}
        refused = headrace.run("pools", "move", "main", "--to", "three")
        assert refused.returncode == 1
        assert "HEADRACE_SCHEDULER_REPLICAS doesn't name three" in refused.stderr
        again = headrace.run("pools", "move", "main", "--to", ready["owner"])
        assert "already" in again.stderr
        moved = headrace.run("pools", "move", "main", "--to", other, "--json")
        assert moved.returncode == 0, moved.stderr
        told = msgspec.json.decode(moved.stdout)
        assert (told["from"], told["to"], told["epoch"]) == (ready["owner"], other, ready["epoch"] + 1)
        assert pool()["owner"] == other
        assert other in headrace.run("pools", "show").stdout
        asked = headrace.run("why", nobodys_request())
        assert asked.returncode == 0, asked.stderr
        assert "the owner of main doesn't hold it" in asked.stdout
        assert "unread" in asked.stdout
        backend = {"inference_worker_pool": "main", "inference_worker_backend_url": "http://127.0.0.1:1"}
        running.enter_context(process(headrace, "run", "inference-worker", name="w", **backend))
        eventually(lambda: worker() == "backend down", "a worker", PATIENCE)
        assert "no worker x" in headrace.run("workers", "drain", "main", "x").stderr
        drained = headrace.run("workers", "drain", "main", "w")
        assert drained.returncode == 0, drained.stderr
        assert worker() == "drained"
        assert headrace.run("workers", "undrain", "main", "w").returncode == 0
        assert worker() == "backend down"
    assert eventually(lambda: pool()["owner"] is None, "the pool is given up")
    assert worker() is None
