"""`GET …/why` and `POST /v1/quote`: with an owner that is played by hand, and with the real one on a real broker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.bus.kafka import KafkaBus, KafkaConnection
from headrace.contracts.control import Query
from headrace.contracts.explanations import Ahead, Closed, Gate, Offer, Why
from headrace.contracts.lifecycle import Status
from headrace.contracts.policy import Policy, PoolPolicy, TenantPolicy, hash_key
from headrace.contracts.replies import Answer
from tests.support.eventually import eventually_async
from tests.support.ingest import CHAT, BreakableBus, Replica, chat_answer, running
from tests.support.scheduler.live import Pool
from tests.support.scheduler.live_worker import LiveWorker
from tests.support.scheduler.pure import POOL
from tests.support.turned import turned

QUOTE = "/v1/quote"


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    async with running(BreakableBus(), tmp_path) as replica:
        yield replica


async def submit(replica: Replica, tenant: str = "atlas") -> str:
    async with replica.session.post("/v1/requests", json=CHAT, headers=replica.as_tenant(tenant)) as answer:
        assert answer.status == 202
        document = await answer.json()
    assert document["links"]["why"] == f"/v1/requests/{document['id']}/why"
    return str(document["id"])


async def asked(replica: Replica, path: str, tenant: str = "atlas", body: Any = None) -> tuple[int, Any, Any]:
    method = "GET" if body is None else "POST"
    async with replica.session.request(method, path, json=body, headers=replica.as_tenant(tenant)) as answer:
        return answer.status, answer.headers, msgspec.json.decode(await answer.read())


async def queries(replica: Replica) -> list[Query]:
    return [each for each in await replica.other.control() if isinstance(each, Query)]


async def answered_by(
    replica: Replica, answer: Callable[[Query], Answer], path: str, body: Any = None
) -> tuple[int, Any, Query]:
    """Status and document where this is what the owner says."""

    async def owner() -> Query:
        found = before = await queries(replica)
        while found == before:
            await asyncio.sleep(0.01)
            found = await queries(replica)
        await replica.other.reply(found[-1].gateway, answer(found[-1]))
        return found[-1]

    answering = asyncio.create_task(owner())
    status, _, document = await asked(replica, path, body=body)
    return status, document, await answering


def known(query: Query, **more: Any) -> Answer:
    fields = {"known": True, "status": Status.QUEUED, **more}
    return Answer(id=query.id, nonce=query.nonce, epoch=1, as_of_ms=1_800_000_000_000, **fields)


async def test_what_the_owner_says_of_a_wait_is_told_in_words(replica: Replica) -> None:
    request_id = await submit(replica)
    why = Why(closed=(Closed(gate=Gate.SLOTS, limit=4, used=4),), ahead=Ahead(own=2, tiers={"standard": 2}))
    status, document, query = await answered_by(
        replica,
        lambda q: known(q, why=why, position=2, estimated_wait_ms=1_500),
        f"/v1/requests/{request_id}/why",
    )
    assert (status, query.id, query.why, query.quote) == (200, request_id, True, None)
    assert (document["status"], document["position"]) == ("queued", 2)
    assert document["estimate"] == {"start_in_seconds": 1.5, "start_in_seconds_p95": None}
    assert document["gates"] == [
        {
            "gate": "slots",
            "message": "The slots of all workers are taken.",
            "limit": 4,
            "used": 4,
            "opens_at": None,
        }
    ]
    assert document["ahead"]["by_tier"] == {"standard": 2}


@pytest.mark.parametrize("silent", [True, False])
async def test_without_an_owner_that_knows_the_question_it_is_503_and_no_old_answer(
    replica: Replica, silent: bool
) -> None:
    request_id = await submit(replica)
    path = f"/v1/requests/{request_id}/why"
    why = Why(closed=(Closed(gate=Gate.NO_WORKER),))
    assert (await answered_by(replica, lambda q: known(q, why=why), path))[0] == 200
    if silent:
        status, headers, problem = await asked(replica, path)
        assert headers["retry-after"] == "5"
    else:
        status, problem, _ = await answered_by(replica, known, path)
    assert (status, problem["code"]) == (503, "owner_unavailable")
    status, headers, problem = await asked(replica, QUOTE, body=CHAT)
    assert (status, problem["code"], headers["content-type"]) == (
        503, "owner_unavailable", "application/problem+json"
    )  # fmt: skip


async def test_only_its_tenant_may_ask_why(replica: Replica) -> None:
    request_id = await submit(replica)
    status, _, problem = await asked(replica, f"/v1/requests/{request_id}/why", "birch")
    assert (status, problem["code"]) == (404, "request_not_found")
    forged = request_id[:-1] + ("a" if request_id[-1] != "a" else "b")
    assert (await asked(replica, f"/v1/requests/{forged}/why"))[0] == 404
    async with replica.session.get(f"/v1/requests/{request_id}/why") as answer:
        assert answer.status == 401
    assert await queries(replica) == []


async def test_of_an_ended_request_nobody_is_asked(replica: Replica) -> None:
    request_id = await submit(replica)
    record, _ = await replica.other.request()
    await replica.other.finish(record, chat_answer("Done"))
    status, _, document = await asked(replica, f"/v1/requests/{request_id}/why")
    assert (status, document["status"], document["gates"], document["ahead"]) == (200, "succeeded", [], None)
    assert await queries(replica) == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"messages": []}, 422, "missing_field"),
        ({"model": "none", "messages": []}, 404, "model_not_found"),
        ({"model": "small"}, 422, "invalid_body"),
        ({**CHAT, "headrace": {"tier": "nowhere"}}, 422, "unknown_tier"),
        ({**CHAT, "headrace": {"deadline": "soon"}}, 422, "invalid_duration"),
        ({**CHAT, "headrace": {"prompt_tokens": 5}}, 422, "invalid_body"),
        ({"model": "small", "headrace": {"prompt_tokens": -5}}, 422, "invalid_body"),
        ([], 422, "invalid_body"),
    ],
)
async def test_a_quote_of_what_would_be_refused_is_refused_likewise(
    replica: Replica, body: Any, status: int, code: str
) -> None:
    found = await asked(replica, QUOTE, body=body)
    assert (found[0], found[2]["code"]) == (status, code)
    assert await replica.other.control() == []


async def test_a_quote_asks_for_the_tiers_of_its_tenant_alone_and_submits_nothing(replica: Replica) -> None:
    body = {"model": "alias", "max_tokens": 50, "headrace": {"tier": "batch", "prompt_tokens": 700}}
    offer = Offer(tier="batch", why=Why(), wait_ms=2_000, feasible=True)
    status, document, query = await answered_by(
        replica, lambda q: known(q, known=False, status=None, offers=(offer,)), QUOTE, body
    )
    assert query.quote is not None
    assert query.quote.tiers == ("batch", "interactive", "standard")
    record = query.quote.request
    assert (record.model, record.prompt_tokens, record.max_tokens) == ("backend/name", 700, 50)
    assert (status, document["tier"], document["wait_seconds"], document["model"]) == (
        200,
        "batch",
        2.0,
        "alias",
    )
    assert await replica.other.all_requests() == []
    async with replica.session.post(QUOTE, json=body, headers=replica.as_tenant("birch")) as answer:
        assert answer.status == 403, "birch has the tier standard alone"


LIVE = Policy(
    pools={POOL: PoolPolicy(models={"small": "small"})},
    tenants={name: TenantPolicy(key_sha256=(hash_key(f"key-{name}"),)) for name in ("atlas", "birch")},
)


@pytest.mark.kafka
async def test_the_real_owner_tells_why_and_what_another_would_meet(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    bus = KafkaBus(KafkaConnection(kafka))
    pool = Pool(bus, prefix, LIVE)
    scheduler, worker = pool.scheduler("owner"), LiveWorker(pool, limit=2)
    worker.holding = True
    with turned(scheduler.turn, worker.turn):
        async with running(bus, tmp_path, prefix, policy=LIVE) as replica:
            mine = [await submit(replica) for _ in range(5)]

            async def why_of(request_id: str, tenant: str = "atlas") -> Any:
                status, _, document = await asked(replica, f"/v1/requests/{request_id}/why", tenant)
                return document if status == 200 else {"gates": [], "ahead": None}

            async def full() -> bool:
                gates = (await why_of(mine[-1]))["gates"]
                return [(each["gate"], each["used"]) for each in gates] == [("slots", 2)]

            await eventually_async(full, "both slots are taken")
            other = await submit(replica, "birch")

            async def waits() -> bool:
                return (await why_of(other, "birch"))["ahead"] is not None

            await eventually_async(waits, "the owner has read the other queue, too")
            status, _, why = await asked(replica, f"/v1/requests/{mine[-1]}/why")
            assert (status, why["status"], why["position"]) == (200, "queued", 2)
            assert [gate["gate"] for gate in why["gates"]] == ["slots", "tenant_slots"]
            assert why["gates"][0]["limit"] == why["gates"][0]["used"] == 2
            assert (why["ahead"]["yours"], why["ahead"]["others"], why["ahead"]["tenants"]) == (2, 1, 1)
            assert why["ahead"]["by_tier"] == {"standard": 3}
            assert why["share"]["by_weight"] == 0.5
            assert why["basis"]["length_from"] == "default"
            quoted = {"model": "small", "max_tokens": 8, "headrace": {"prompt_tokens": 20, "deadline": "1h"}}
            status, _, quote = await asked(replica, QUOTE, body=quoted)
            assert (status, quote["tier"], quote["cost"]) == (200, "standard", 20 + 2 * 8)
            assert {each["tier"] for each in quote["alternatives"]} == {"interactive", "batch"}
            worker.holding = False

            async def ended() -> bool:
                return len(worker.ran) == 6

            await eventually_async(ended, "all six have run, and the quoted one never was one")
    scheduler.stop()
    worker.close()
    pool.close()
