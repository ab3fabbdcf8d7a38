"""An owner's memory is that of what waits and runs: what has ended takes none, however late it might have expired."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.runtime.policy_file import load_policy
from tests.support.scheduler.live import Ownerships, Pool, turn_until
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import POOL
from tests.support.scheduler.replica import Replica

TENANTS = [f"tenant-{number}" for number in range(16)]
ROUNDS, EACH, BODY = 5, 640, b"x" * 30_000
MIB = 2**20
POLICY = f"""
[pools.{POOL}.models]
m = "m"
[tiers.batch]
weight = 1
queue_timeout = "24h"
[tenants.tenant-0]
default_tier = "batch"
"""


@pytest.fixture
def pool(kafka: str, prefix: str, tmp_path: Path) -> Iterator[Pool]:
    """One that real processes own, by their file."""
    (tmp_path / "policy.toml").write_text(POLICY)
    made = Pool(KafkaBus(KafkaConnection(kafka)), prefix, load_policy(tmp_path / "policy.toml"), body=BODY)
    yield made
    made.close()


@pytest.fixture
def owner(kafka: str, pool: Pool, tmp_path: Path) -> Iterator[Replica]:
    """Of that pool."""
    replica, owners = Replica(tmp_path, kafka, pool.prefix, "one"), Ownerships(pool)
    try:
        turn_until(pool, [], replica.has_started)
        turn_until(pool, [], lambda: owners.open_by("one"))
        yield replica
    finally:
        owners.close()
        replica.end()


@pytest.mark.kafka
def test_payloads_of_what_has_ended_go_though_it_could_have_expired_a_day_later(
    pool: Pool, owner: Replica
) -> None:
    worker, ended = LiveWorker(pool, limit=64), 0

    def finish_a_round() -> None:
        nonlocal ended
        for tenant in TENANTS:
            pool.submit(EACH // len(TENANTS), tenant)
        ended += EACH
        turn_until(pool, [worker.turn, worker.values.clear], lambda: len(pool.results_read()) == ended)

    finish_a_round()
    after_one = owner.resident_mib
    for _ in range(ROUNDS - 1):
        finish_a_round()
    grown = owner.resident_mib - after_one
    worker.close()
    assert grown * MIB < (ROUNDS - 1) * EACH * len(BODY) / 4
