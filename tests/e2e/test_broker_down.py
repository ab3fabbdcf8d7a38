"""With the broker gone a caller hears 503 and that the outcome is unknown; never a 202, and nothing accepted is lost."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from headrace.cli.stack.plan import Backend
from headrace.cli.stack.processes import Stack
from headrace.devkit.kafka import KafkaCluster
from headrace.devkit.served import EngineProcess
from tests.support.broker import topic_prefix
from tests.support.callers import Caller, chat_body
from tests.support.stacks import running

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaCluster]:
    # Kafka refuses a killed broker's id until its session is over: 9 s by default, spent waiting here.
    with KafkaCluster(settings={"broker.session.timeout.ms": "3000"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def stack(
    broker: KafkaCluster, engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("down")
    backends, quick = [Backend("main", engine.url, "vllm", 8)], {"ingest": {"delivery_timeout": "3s"}}
    with running(folder, broker.bootstrap, topic_prefix(), backends, extra=quick) as stack:
        yield stack


DOORS = ("/v1/requests", "/v1/chat/completions")


async def refused(caller: Caller, route: str) -> str:
    """What a caller is told while no broker answers."""
    async with caller.session.post(route, json=chat_body("meanwhile", model="fake", max_tokens=2)) as answer:
        assert answer.status == 503
        assert "retry-after" in answer.headers
        return str(msgspec.json.decode(await answer.read()))


async def test_a_killed_broker_is_a_503_of_unknown_outcome_and_afterwards_all_is_well(
    stack: Stack, broker: KafkaCluster
) -> None:
    slow = chat_body("before [[fault:slow:100]]", model="fake", max_tokens=20)
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        accepted = [await atlas.submit(slow, tier="standard") for _ in range(4)]
        await asyncio.to_thread(broker.kill)
        told = await asyncio.gather(*(refused(atlas, route) for route in DOORS))
        unknown = [each for each in told if "outcome_unknown" in each]
        assert unknown, "the first may have been on its way"
        assert all("req_" in each for each in unknown)
        assert all("not_accepted" in each for each in told if each not in unknown), "what waited behind it"
        await asyncio.to_thread(broker.restart)
        outcomes = [await atlas.ended(request_id, wait=None) for request_id in accepted]
        assert [outcome.http_status for outcome in outcomes] == [200] * len(accepted)
        after = await atlas.ended(await atlas.submit(slow, tier="standard"))
        assert after.http_status == 200
