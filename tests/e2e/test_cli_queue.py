"""`headrace queue` against a running scheduler, as its operators use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.contracts.failures import FailureKind
from headrace.runtime.policy_file import load_policy
from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.scheduler.live import Pool

POLICY = """
[pools.small.models]
m = "m"
[pools.large.models]
n = "m"
[tenants.a]
[tenants.b]
[topics]
tenant_partitions = 2
gateways = 1
"""
PATIENCE = timedelta(seconds=60)
pytestmark = pytest.mark.kafka


@contextmanager
def scheduler(headrace: CommandLine, errors: Path) -> Iterator[None]:
    made = headrace.start("run", "scheduler", errors=errors)
    try:
        yield
    finally:
        made.terminate()
        made.communicate(timeout=30)
        assert made.returncode == 0


def priorities(found: Any) -> dict[str, int]:
    """Of those that were named."""
    return {each["id"]: each.get("priority", 0) for each in found["requests"]}


def test_an_operator_looks_into_a_queue_and_orders_what_fits(kafka: str, prefix: str, tmp_path: Path) -> None:
    headrace, policy = CommandLine(), tmp_path / "policy.toml"
    policy.write_text(POLICY)
    shared = {"kafka": kafka, "prefix": prefix, "policy": str(policy)}
    headrace.env |= {f"HEADRACE_{name.upper()}": value for name, value in shared.items()}
    pool = Pool(KafkaBus(KafkaConnection(kafka)), prefix, load_policy(policy))

    def listed(*options: str) -> Any:
        done = headrace.run("queue", "ls", "small", "--json", "--within", "5s", *options)
        return msgspec.json.decode(done.stdout) if done.returncode == 0 else done.stderr

    assert "hasn't answered within 5s" in listed()
    assert "the policy has no tier x; it has interactive, standard, batch" in listed("--tier", "x")
    assert "the policy has no pool huge" in headrace.run("queue", "ls", "huge").stderr
    assert "expected a duration" in listed("--older-than", "10")
    of_a, of_b = pool.submit(5), pool.submit(3, "b", "interactive")
    pool.producer.flush(timedelta(seconds=10))
    with scheduler(headrace, tmp_path / "errors"):
        eventually(
            lambda: isinstance(found := listed(), dict) and found["queued"] == 8, "all are read", PATIENCE
        )
        found = listed("--tenant", "a", "--most", "2")
        assert (found["queued"], found["running"]) == (5, 0)
        assert {each["id"] for each in found["requests"]} <= set(of_a)
        assert len(found["requests"]) == 2
        assert [each["id"] for each in listed("--id", of_b[1])["requests"]] == [of_b[1]]
        assert listed("--older-than", "1h")["queued"] == listed("--state", "running")["queued"] == 0
        told = headrace.run("queue", "ls", "small", "--tier", "interactive").stdout
        assert "3 wait and 0 run in small that fit" in told
        assert all(each in told for each in of_b)

        def ordered(*options: str) -> str:
            done = headrace.run("queue", *options)
            return done.stdout if done.returncode == 0 else done.stderr

        assert "say --all" in ordered("freeze", "small")
        assert "a in batch of small is held back" in ordered(
            "freeze", "small", "--tenant", "a", "--tier", "batch"
        )
        holds = msgspec.json.decode(ordered("frozen", "small", "--json"))
        assert {each["tier"]: each["tenants"] for each in holds}["batch"] == ["a"]
        assert {each["tier"]: each["depth"] for each in holds}["batch"] == 5
        assert "goes on" in ordered("thaw", "small", "--tenant", "a", "--tier", "batch")
        assert "nobody is held back" in ordered("frozen", "small")

        assert "name what to reprioritise" in ordered("reprioritise", "small", "--priority", "5")
        first = ("reprioritise", "small", "--id", of_a[-1], "--priority", "5")
        assert "nothing was done: --yes changes their priority" in ordered(*first)
        assert priorities(listed()) == dict.fromkeys((*of_a, *of_b), 0)
        assert "they have priority 5 now" in ordered(*first, "--yes")
        assert priorities(listed())[of_a[-1]] == 5

    with scheduler(headrace, tmp_path / "errors"):
        newer = pool.submit(1)
        eventually(
            lambda: isinstance(found := listed(), dict) and found["queued"] == 9, "all are read", PATIENCE
        )
        assert priorities(listed()) == {**dict.fromkeys((*of_a, *of_b, *newer), 0), of_a[-1]: 5}
        assert "they have priority -3 now" in ordered(
            "reprioritise", "small", "--tenant", "a", "--priority", "-3", "--yes"
        )
        assert priorities(listed()) == {**dict.fromkeys(of_b, 0), **dict.fromkeys((*of_a, *newer), -3)}

        def cancel(*options: str) -> Any:
            done = headrace.run("queue", "cancel", "small", *options)
            return done.stdout if done.returncode == 0 else done.stderr

        assert "name what to cancel" in cancel("--yes")
        assert "takes no filter beside it" in cancel("--yes", "--all", "--tenant", "a")
        dry = cancel("--tenant", "a")
        assert "6 wait and 0 run in small that fit" in dry
        assert "nothing was done" in dry
        assert listed()["queued"] == 9
        assert "they were cancelled" in cancel("--tenant", "a", "--yes")
        assert listed()["queued"] == 3
        again = cancel("--tenant", "a", "--yes")
        assert "0 wait and 0 run" in again, "once more does no harm"
        assert "nothing fits, so there is nothing to do" in again
        eventually(lambda: len(pool.results_read()) >= 6, "their ends", PATIENCE)
        ended = pool.results_read()
        assert {each.id for each in ended} == {*of_a, *newer}
        assert {each.failure and each.failure.kind for each in ended} == {FailureKind.CANCELLED_BY_OPERATOR}

        assert "they are in small already" in ordered("move", "small", "--to", "small", "--all")
        assert "large has no model x; it has n" in ordered(
            "move", "small", "--to", "large", "--all", "--as", "x"
        )
        assert "nothing was done: --yes moves 3 to large" in ordered(
            "move", "small", "--to", "large", "--all"
        )
        moved = ordered("move", "small", "--to", "large", "--tenant", "b", "--yes")
        assert "asked: move to large what waits, of tenant b" in moved
        assert "3 went to large" in moved
        assert "stay" not in moved
        eventually(lambda: listed()["queued"] == 0, "they have gone", PATIENCE)

        def there() -> Any:
            return msgspec.json.decode(headrace.run("queue", "ls", "large", "--json").stdout)

        eventually(lambda: there()["queued"] == 3, "they have come", PATIENCE)
        assert {each["id"] for each in there()["requests"]} == set(of_b)
        back = ordered("move", "large", "--to", "small", "--all", "--yes")
        assert "0 went to small\n3 stay in large:\n  3 in small before" in back
    pool.close()
