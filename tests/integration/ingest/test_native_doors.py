"""The native routes: submit, look, fetch, follow, cancel; and what another tenant sees of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from msgspec.structs import replace

from headrace.contracts.control import CancelRequest, Query
from headrace.contracts.failures import FailureKind
from headrace.contracts.ids import AttemptId
from headrace.contracts.lifecycle import Status
from headrace.contracts.policy import KeepPolicy
from headrace.contracts.prefixes import hashes_of
from headrace.contracts.replies import Answer
from headrace.contracts.requests import RequestRecord
from headrace.contracts.values import Failure
from tests.support.eventually import eventually_async
from tests.support.ingest import CHAT, POLICY, BreakableBus, Replica, chat_answer, running


@pytest.fixture
async def replica(tmp_path: Path) -> AsyncIterator[Replica]:
    async with running(BreakableBus(), tmp_path, lost_final_poll=timedelta(milliseconds=100)) as replica:
        yield replica


async def submit(replica: Replica, **headrace: Any) -> tuple[dict[str, Any], RequestRecord]:
    async with replica.session.post(
        "/v1/requests", json={**CHAT, "headrace": headrace}, headers=replica.as_tenant()
    ) as answer:
        document = await answer.json()
        assert answer.status == 202, document
        assert answer.headers["location"] == document["links"]["self"]
        assert "retry-after" in answer.headers
    records = {record.id: record for record, _ in await replica.other.all_requests()}
    return document, records[document["id"]]


async def get(
    replica: Replica, path: str, tenant: str = "atlas", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    async with replica.session.get(path, headers={**replica.as_tenant(tenant), **headers}) as answer:
        return (
            answer.status,
            {name.lower(): value for name, value in answer.headers.items()},
            await answer.read(),
        )


def events_in(raw: bytes) -> list[tuple[str, str | None, Any]]:
    """(event, id, data) of each server-sent event."""
    found = []
    for block in raw.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], lines.get("id"), msgspec.json.decode(lines["data"])))
    return found


async def test_a_submission_is_kept_with_its_options_and_without_them_in_the_body(replica: Replica) -> None:
    options = {
        "tier": "batch",
        "priority": 3,
        "deadline": "1h",
        "queue_timeout": "5m",
        "metadata": {"job": "4"},
    }
    document, record = await submit(replica, **options, fairness_key="user-1")
    assert (document["status"], document["tier"], document["model"]) == ("queued", "batch", "small")
    assert (record.tier, record.priority, record.metadata) == ("batch", 3, {"job": "4"})
    assert (record.fairness_key, record.waits) == ("user-1", False)
    assert record.start_by_ms == record.accepted_ms + 300_000
    assert record.finish_by_ms == record.accepted_ms + 3_600_000
    [(_, received)] = await replica.other.all_requests()
    assert msgspec.json.decode(received.value or b"") == CHAT


@pytest.mark.parametrize("header", ["X-Headrace-Fairness-Key", "X-LLM-D-Inference-Fairness-Id"])
async def test_a_header_names_the_fairness_key(replica: Replica, header: str) -> None:
    asked = {**CHAT, "user": "body", "headrace": {"fairness_key": "option"}}
    async with replica.session.post(
        "/v1/requests", json=asked, headers={**replica.as_tenant(), header: "header"}
    ) as answer:
        assert answer.status == 202
    [(record, _)] = await replica.other.all_requests()
    assert record.fairness_key == "header"


@pytest.mark.parametrize("header", ["X-Headrace-Session", "X-Session-ID"])
async def test_who_names_a_session_is_sent_where_it_ran_and_the_record_has_no_more_than_its_hash(
    replica: Replica, header: str
) -> None:
    for asked, headers in (
        ({**CHAT, "headrace": {"session": "talk-7"}}, {}),
        ({**CHAT, "prompt_cache_key": "talk-7"}, {}),
        ({**CHAT, "prompt_cache_key": "body", "headrace": {"session": "option"}}, {header: "talk-7"}),
    ):
        async with replica.session.post(
            "/v1/requests", json=asked, headers={**replica.as_tenant(), **headers}
        ) as answer:
            assert answer.status == 202
    sessions = {record.session for record, _ in await replica.other.all_requests()}
    assert len(sessions) == 1
    assert "talk-7" not in str(sessions)


async def test_a_long_prompt_tells_what_it_begins_with_and_a_short_one_nothing(replica: Replica) -> None:
    _, short = await submit(replica)
    assert short.prefix == ""
    asked = {**CHAT, "messages": [{"role": "user", "content": "long " * 2_000}]}
    async with replica.session.post("/v1/requests", json=asked, headers=replica.as_tenant()) as answer:
        assert answer.status == 202
    records = [record for record, _ in await replica.other.all_requests()]
    assert [len(hashes_of(record.prefix)) for record in records] == [0, 4]


async def test_a_caller_keeps_its_request_from_other_pools(replica: Replica) -> None:
    _, wherever = await submit(replica)
    _, here = await submit(replica, fallback=False)
    async with replica.session.post(
        "/v1/requests", json=CHAT, headers={**replica.as_tenant(), "X-Headrace-Fallback": "false"}
    ) as answer:
        assert answer.status == 202
    [header] = [r for r, _ in await replica.other.all_requests() if r.id not in (wherever.id, here.id)]
    assert (wherever.stays, here.stays, header.stays) == (False, True, True)


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
    assert (document["estimate"], document["model"]) == ({"start_in_seconds": 1.5}, "small")
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


async def test_another_tenants_id_and_a_forged_one_look_alike(replica: Replica) -> None:
    _, record = await submit(replica)
    await replica.other.finish(record, chat_answer("Secret."))
    forged = record.id[:-1] + ("a" if record.id[-1] != "a" else "b")
    for tail in ("", "/result", "/events"):
        foreign = await get(replica, f"/v1/requests/{record.id}{tail}", "birch")
        fake = await get(replica, f"/v1/requests/{forged}{tail}")
        assert (foreign[0], foreign[2]) == (404, fake[2])
        assert fake[0] == 404


async def test_events_tell_a_whole_life_and_resume_where_a_reader_was(replica: Replica) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}/events"
    await replica.other.chunk(record, 0, "Good ", so_far=5)
    async with replica.session.get(path, headers=replica.as_tenant()) as answer:
        await replica.other.chunk(record, 1, "day", so_far=8)
        await replica.other.chunk(record, 2, ".", so_far=9, finish_reason="stop")
        await replica.other.finish(record, chat_answer("Good day."))
        events = events_in(await answer.read())
        assert answer.content_type == "text/event-stream"
    assert "".join(data["text"] for event, _, data in events if event == "text") == "Good day."
    assert [events[0][0], events[-1][0]] == ["status", "end"]
    assert events[-1][2]["status"] == "succeeded"
    first = next(at for event, at, _ in events if event == "text" and at)
    had = int(first.rsplit("-", 1)[1])
    resumed = events_in((await get(replica, path, **{"Last-Event-ID": first}))[2])
    assert "".join(data["text"] for event, _, data in resumed if event == "text") == "Good day."[had:]


async def test_a_live_stream_is_resumed_behind_its_last_event_without_a_repeated_word(
    replica: Replica,
) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}/events"
    await replica.other.chunk(record, 0, "Good ", so_far=5)
    async with replica.session.get(path, headers=replica.as_tenant()) as answer:
        seen = b""
        while b"event: text" not in seen or not seen.endswith(b"\n\n"):
            seen += await answer.content.readany()
    place = next(at for event, at, _ in events_in(seen) if event == "text")
    assert place is not None
    resuming = asyncio.create_task(get(replica, path, **{"Last-Event-ID": place}))
    await replica.other.chunk(record, 1, "day.", so_far=9, finish_reason="stop")
    await replica.other.finish(record, chat_answer("Good day."), tell=False)
    events = events_in((await asyncio.wait_for(resuming, 10))[2])
    assert [data["text"] for event, _, data in events if event == "text"] == ["day."]
    assert events[-1][0] == "end"


async def test_another_attempts_text_begins_with_a_restart(replica: Replica) -> None:
    _, record = await submit(replica)
    path = f"/v1/requests/{record.id}/events"
    async with replica.session.get(path, headers=replica.as_tenant()) as answer:
        await replica.other.chunk(record, 0, "Bad", so_far=3)
        await replica.other.chunk(record, 0, "Good", so_far=4, attempt=AttemptId(2, 1), finish_reason="stop")
        await replica.other.finish(record, chat_answer("Good"), attempt=AttemptId(2, 1))
        told = [(event, data.get("text")) for event, _, data in events_in(await answer.read())]
    restart = told.index(("restart", None))
    assert [text for event, text in told[restart:] if event == "text"] == ["Good"]


async def test_a_replica_that_stops_sends_its_readers_away_at_once(tmp_path: Path) -> None:
    async with running(BreakableBus(), tmp_path, drain=timedelta(seconds=20)) as replica:
        _, record = await submit(replica)
        session = aiohttp.ClientSession(replica.url, headers=replica.as_tenant())
        events = await session.get(f"/v1/requests/{record.id}/events")
        waiting = asyncio.create_task(session.get(f"/v1/requests/{record.id}?wait=30s"))
        await replica.other.request()
    async with session, asyncio.timeout(5):
        assert events_in(await events.read())[0][0] == "status"
        with contextlib.suppress(aiohttp.ClientConnectionError):
            (await waiting).release()


async def test_hanging_up_on_events_cancels_nothing(replica: Replica) -> None:
    _, record = await submit(replica)
    async with replica.session.get(f"/v1/requests/{record.id}/events", headers=replica.as_tenant()) as answer:
        await answer.content.readany()

    async def closed() -> bool:
        open_now = replica.telemetry.metrics.registry.get_sample_value("headrace_ingest_open_requests")
        return open_now == 0

    await eventually_async(closed, "the stream closed")
    assert not any(isinstance(each, CancelRequest) for each in await replica.other.control())
