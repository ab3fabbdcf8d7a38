"""What the native routes tell of a request, and who may ask: states, results, cancellations, and other tenants' ids."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.failures import FailureKind
from headrace.contracts.lifecycle import Status
from headrace.contracts.policy import KeepPolicy, PoolPolicy
from headrace.contracts.replies import Answer
from headrace.contracts.requests import RequestRecord
from headrace.contracts.topics import TopicKind
from headrace.contracts.values import Failure
from tests.integration.ingest.native_caller import get, submit
from tests.support.ingest import POLICY, BreakableBus, Replica, chat_answer, running


async def test_a_live_status_is_the_owners_and_without_an_owner_it_is_queued(replica: Replica) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}"
    code, headers, body = await get(replica, path)
    assert (code, msgspec.json.decode(body)["status"]) == (200, "queued")
    assert headers["retry-after"] == "1"

    async def owner() -> None:
        asked: list[Query] = []
        while len(asked) < 2:
            asked = [each for each in await replica.other.control() if isinstance(each, Query)]
        answer = Answer(id=record.id, nonce=asked[1].nonce, epoch=1, as_of_ms=record.accepted_ms, known=True,
                        status=Status.RUNNING, position=0, tokens=7, attempts=1, estimated_wait_ms=1500,
                        model="small")  # fmt: skip
        await replica.other.reply(asked[1].gateway, answer)

    answering = asyncio.create_task(owner())
    document = msgspec.json.decode((await get(replica, path))[2])
    await answering
    assert (document["status"], document["tokens"], document["position"]) == ("running", 7, 0)
    assert (document["estimate"], document["model"]) == (
        {"start_in_seconds": 1.5, "start_in_seconds_p95": None},
        "small",
    )
    assert msgspec.json.decode((await get(replica, path))[2])["status"] == "running", "the last that is known"


async def test_a_request_that_is_noted_but_not_answered_for_is_queued_with_its_model(
    replica: Replica,
) -> None:
    document, record = await submit(replica)
    replica.other.note(record)
    status, _, body = await get(replica, document["links"]["self"])
    found = msgspec.json.decode(body)
    assert (status, found["status"], found["model"]) == (200, "queued", "small")


async def test_a_genuine_id_past_its_time_is_gone_unless_somebody_still_knows_it(tmp_path: Path) -> None:
    policy = replace(POLICY, keep=KeepPolicy(results=timedelta(milliseconds=1)))
    async with running(BreakableBus(), tmp_path, policy=policy) as replica:
        document, record = await submit(replica)
        links = document["links"]
        for path in (links["self"], links["result"], links["events"]):
            status, headers, body = await get(replica, path)
            assert (status, headers["content-type"]) == (410, "application/problem+json")
            assert msgspec.json.decode(body)["code"] == "request_gone"
        async with replica.session.post(links["cancel"], headers=replica.as_tenant()) as answer:
            assert answer.status == 410
        assert (await get(replica, links["self"], "birch"))[0] == 404
        replica.other.note(record)
        assert (await get(replica, links["self"]))[0] == 200, "its result is still to come"
        await replica.other.finish(record, chat_answer("Hi"))
        assert (await get(replica, links["result"]))[0] == 200


async def test_waiting_for_a_status_ends_with_the_request(replica: Replica) -> None:
    for tell in (True, False):
        _, record = await submit(replica)
        looking = asyncio.create_task(get(replica, f"/v1/requests/{record.id}?wait=30s"))
        await asyncio.sleep(0)
        await replica.other.finish(record, chat_answer("Hi."), tell=tell)
        code, _, body = await asyncio.wait_for(looking, 20)
        document = msgspec.json.decode(body)
        assert (code, document["status"], document["usage"]["total_tokens"]) == (200, "succeeded", 5)
        assert document["times"]["finished_at"] is not None


async def test_a_result_is_the_stored_body_and_until_then_a_202(replica: Replica) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}/result"
    code, headers, body = await get(replica, path)
    assert (code, msgspec.json.decode(body)["status"], headers["retry-after"]) == (202, "queued", "1")
    await replica.other.finish(record, chat_answer("Hi."))
    code, headers, body = await get(replica, path)
    assert (code, body, headers["content-type"]) == (200, chat_answer("Hi."), "application/json")
    assert headers["x-headrace-status"] == "succeeded"
    assert headers["x-headrace-model"] == record.model


@pytest.mark.parametrize(
    ("status", "http_status", "kind", "body", "partial", "code"),
    [
        (Status.FAILED, 400, FailureKind.INVALID_REQUEST, b'{"error":{}}', False, 400),
        (Status.FAILED, 502, FailureKind.STREAM_BROKEN, chat_answer("Go"), True, 502),
        (Status.EXPIRED, 504, FailureKind.QUEUE_TIMEOUT, b"", False, 504),
        (Status.CANCELLED, 499, FailureKind.CANCELLED_BY_CALLER, chat_answer("Go"), True, 200),
        (Status.CANCELLED, 499, FailureKind.CANCELLED_BY_CALLER, b"", False, 409),
        (Status.DEAD_LETTERED, 502, FailureKind.ATTEMPTS_EXHAUSTED, b"", False, 502),
    ],
)
async def test_every_end_has_its_result(
    replica: Replica,
    status: Status,
    http_status: int,
    kind: FailureKind,
    body: bytes,
    partial: bool,
    code: int,
) -> None:
    _, record = await submit(replica)
    await replica.other.finish(
        record, body, status=status, http_status=http_status, failure=Failure(kind=kind), partial=partial
    )
    got, headers, found = await get(replica, f"/v1/requests/{record.id}/result")
    assert got == code
    if body:
        assert (found, headers.get("x-headrace-partial")) == (body, "true" if partial else None)
    else:
        assert headers["content-type"] == "application/problem+json"
        assert msgspec.json.decode(found)["code"] == kind.value
    document = msgspec.json.decode((await get(replica, f"/v1/requests/{record.id}"))[2])
    assert (document["status"], document["failure"]["code"]) == (status.value, kind.value)


async def test_a_cancellation_is_kept_and_one_that_comes_too_late_says_so(replica: Replica) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}/cancel"
    async with replica.session.post(path, headers=replica.as_tenant()) as answer:
        assert answer.status == 202
    assert any(isinstance(each, CancelRequest) for each in await replica.other.control())
    failure = Failure(kind=FailureKind.CANCELLED_BY_CALLER)
    await replica.other.finish(record, b"", status=Status.CANCELLED, http_status=499, failure=failure)
    async with replica.session.post(path, headers=replica.as_tenant()) as answer:
        assert (answer.status, (await answer.json())["status"]) == (200, "cancelled")


AWAY = replace(POLICY, pools={**POLICY.pools, "away": PoolPolicy(models={"other": "other"})})


async def cancelled_in(replica: Replica, noted: RequestRecord, pool: str) -> list[tuple[str, str, int]]:
    """What stands in a pool's log once its caller has cancelled a request that is noted so: id, tenant, hop."""
    replica.other.note(noted)
    path = f"/v1/requests/{noted.id}/cancel"
    async with replica.session.post(path, headers=replica.as_tenant()) as answer:
        assert answer.status == 202
    found = await replica.other.control(pool)
    return [(each.id, each.tenant, each.hop) for each in found if isinstance(each, CancelRequest)]


async def test_a_cancellation_is_told_to_the_pool_that_its_request_went_to_as_well(tmp_path: Path) -> None:
    async with running(BreakableBus(), tmp_path, policy=AWAY) as replica:
        _, record = await submit(replica)
        there = await cancelled_in(replica, replace(record, pool="away", hop=2), "away")
        assert there == [(record.id, "atlas", 2)]
        at_home = [each for each in await replica.other.control() if isinstance(each, CancelRequest)]
        assert [(each.id, each.hop) for each in at_home] == [(record.id, 0)], "whose owner may know better"


@pytest.mark.parametrize(
    "planted",
    [{"tenant": "birch", "hop": 1}, {"hop": 0}, {"pool": "never.heard/of", "hop": 1}],
    ids=["of another tenant", "never passed on", "to no pool"],
)
async def test_a_cancellation_goes_nowhere_by_a_planted_row(tmp_path: Path, planted: dict[str, Any]) -> None:
    async with running(BreakableBus(), tmp_path, policy=AWAY) as replica:
        _, record = await submit(replica)
        assert await cancelled_in(replica, replace(record, **{"pool": "away", **planted}), "away") == []
        assert any(isinstance(each, CancelRequest) for each in await replica.other.control())


async def test_a_cancellation_that_stands_at_home_is_kept_whatever_fails_elsewhere(tmp_path: Path) -> None:
    bus = BreakableBus()
    async with running(bus, tmp_path, policy=AWAY) as replica:
        _, record = await submit(replica)
        bus.deaf = replica.other.names.of(TopicKind.CONTROL, pool="away")
        assert await cancelled_in(replica, replace(record, pool="away", hop=1), "away") == []
        assert any(isinstance(each, CancelRequest) for each in await replica.other.control())


async def test_another_tenants_id_and_a_forged_one_look_alike(replica: Replica) -> None:
    _, record = await submit(replica)
    await replica.other.finish(record, chat_answer("Secret."))
    forged = record.id[:-1] + ("a" if record.id[-1] != "a" else "b")
    for tail in ("", "/result", "/events"):
        foreign = await get(replica, f"/v1/requests/{record.id}{tail}", "birch")
        fake = await get(replica, f"/v1/requests/{forged}{tail}")
        assert (foreign[0], foreign[2]) == (404, fake[2])
        assert fake[0] == 404
