"""A pool's real owner tells on a real broker how its queue stands; ingest refuses by it, and takes again what has room."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.contracts.policy import Policy, PoolPolicy, TierPolicy
from headrace.scheduler.state import pace
from tests.support.eventually import eventually_async
from tests.support.ingest import CHAT, POLICY, Replica, running
from tests.support.scheduler.live import Pool
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import POOL
from tests.support.turned import turned

pytestmark = pytest.mark.kafka
OPENAI, NATIVE = "/v1/chat/completions", "/v1/requests"
MINUTE = TierPolicy(weight=1, queue_timeout=timedelta(minutes=1))
WHOLE = Policy(
    pools={POOL: PoolPolicy(models={"small": "small"})}, tenants=POLICY.tenants, tiers={"standard": MINUTE}
)
SOME = 10


async def submitted(replica: Replica, route: str = NATIVE, tenant: str = "atlas") -> tuple[int, Any, Any]:
    """Status, headers and document of one submit. On OpenAI's route nobody waits for long."""
    headers = {**replica.as_tenant(tenant), "x-stainless-read-timeout": "0.1"}
    async with replica.session.post(route, json=CHAT, headers=headers) as answer:
        return answer.status, answer.headers, await answer.json(content_type=None)


async def test_a_full_queue_is_refused_at_both_doors_and_taken_again_once_it_has_drained(
    kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "WINDOW", timedelta(seconds=2))
    bus = KafkaBus(KafkaConnection(kafka))
    pool = Pool(bus, prefix, WHOLE)
    scheduler, worker = pool.scheduler("owner"), LiveWorker(pool, limit=2)
    worker.holding = True
    with turned(scheduler.turn, worker.turn) as well:
        async with running(bus, tmp_path, prefix, policy=WHOLE) as replica:
            for _ in range(SOME):
                assert (await submitted(replica))[0] == 202  # more wait than run, and nobody knows how fast

            async def refused() -> bool:
                return well() and (await submitted(replica))[0] == 429

            await eventually_async(refused, "the queue is full")
            status, headers, problem = await submitted(replica)
            assert (status, problem["code"], problem["limit"]["name"]) == (429, "queue_full", "tenant_queue")
            assert problem["limit"]["over"] > 0
            assert 1 <= int(headers["retry-after"]) <= 600
            status, headers, error = await submitted(replica, OPENAI)
            assert (status, error["error"]["code"]) == (429, "queue_full")
            assert 1 <= int(headers["retry-after"]) <= 60
            assert (await submitted(replica, tenant="birch"))[0] == 202
            worker.limit, worker.holding = 50, False

            async def taken() -> bool:
                return well() and (await submitted(replica))[0] == 202

            await eventually_async(taken, "the queue has drained")
    scheduler.stop()
    worker.close()
    pool.close()
