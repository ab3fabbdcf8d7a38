"""What is refused: each with the right status, in the shape of its door, and nothing of it in the log."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

from headrace.bus.ports import BusError, BusUnavailableError, DeliveryUnknownError, TooLargeError
from headrace.contracts.topics import TopicKind
from tests.support.ingest import CHAT, POLICY, BreakableBus, Replica, running

GOOD = msgspec.json.encode(CHAT)
MAX_BODY = 64 * 1024
OPENAI, NATIVE = "/v1/chat/completions", "/v1/requests"

BAD: dict[str, tuple[int, str, bytes, dict[str, str]]] = {
    "invalid JSON": (400, "invalid_json", b'{"model":', {}),
    "not UTF-8": (400, "invalid_json", b'{"model":"\xff"}', {}),
    "a byte order mark": (400, "invalid_json", b"\xef\xbb\xbf" + GOOD, {}),
    "not a number": (400, "invalid_json", GOOD[:-1] + b',"temperature":NaN}', {}),
    "a lone surrogate": (400, "invalid_json", GOOD[:-1] + b',"user":"\\ud800"}', {}),
    "nested too deeply": (
        400,
        "invalid_json",
        GOOD[:-1] + b',"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        {},
    ),
    "an empty body": (400, "invalid_json", b"", {}),
    "no object": (422, "invalid_body", b"[]", {}),
    "wrong types": (422, "invalid_body", GOOD.replace(b'"small"', b"7"), {}),
    "no model": (422, "missing_field", b'{"messages":[]}', {}),
    "unknown model": (404, "model_not_found", GOOD.replace(b"small", b"large"), {}),
    "too large": (413, "body_too_large", GOOD + b" " * MAX_BODY, {}),
    "no key": (401, "invalid_api_key", GOOD, {"Authorization": ""}),
    "bad key": (401, "invalid_api_key", GOOD, {"Authorization": "Bearer key-nobody"}),
    "odd key": (401, "invalid_api_key", GOOD, {"Authorization": "Basic a2V5"}),
    "unknown tier": (422, "unknown_tier", GOOD, {"X-Priority": "gold"}),
    "a tier of others": (
        403,
        "tier_not_allowed",
        GOOD,
        {"X-Priority": "batch", "Authorization": "Bearer key-birch"},
    ),
    "a bad deadline": (422, "invalid_duration", GOOD, {"X-Headrace-Deadline": "soon"}),
    "compressed": (415, "unsupported_encoding", GOOD, {"Content-Encoding": "gzip"}),
}


@pytest.fixture
def bus() -> BreakableBus:
    return BreakableBus()


@pytest.fixture
async def replica(bus: BreakableBus, tmp_path: Path) -> AsyncIterator[Replica]:
    async with running(bus, tmp_path, max_body=MAX_BODY) as replica:
        yield replica


def told(route: str, content_type: str, body: bytes) -> dict[str, Any]:
    """The error in the shape of its door."""
    document: dict[str, Any] = msgspec.json.decode(body)
    if route.startswith(NATIVE) or not route.startswith("/v1/"):
        assert content_type == "application/problem+json"
        assert {"type", "title", "status", "detail", "code"} <= set(document)
        return document
    assert content_type == "application/json"
    assert {"message", "type", "param", "code"} <= set(document["error"])
    error: dict[str, Any] = document["error"]
    return error


async def chunked(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 16_384):
        yield body[start : start + 16_384]


async def test_bad_input_is_refused_and_leaves_nothing_in_the_log(replica: Replica) -> None:
    for name, (status, code, body, headers) in BAD.items():
        for route in (OPENAI, NATIVE):
            async with replica.session.post(
                route, data=body, headers={**replica.as_tenant(), **headers}
            ) as answer:
                error = told(route, answer.headers["content-type"], await answer.read())
                assert (answer.status, error["code"]) == (status, code), (name, route)
    assert await replica.other.all_requests() == []
    assert await replica.other.control() == []
    dead = await replica.other.records(replica.other.names.of(TopicKind.DLQ), POLICY.topics.tenant_partitions)
    assert dead == []


async def test_a_body_without_a_length_is_measured_while_it_is_read(replica: Replica) -> None:
    body = chunked(GOOD + b" " * MAX_BODY)
    async with replica.session.post(NATIVE, data=body, headers=replica.as_tenant()) as answer:
        assert answer.status == 413


async def test_wrong_types_name_their_place_in_both_spellings(replica: Replica) -> None:
    body = msgspec.json.encode({**CHAT, "stream_options": {"include_usage": "yes"}})
    async with replica.session.post(OPENAI, data=body, headers=replica.as_tenant()) as answer:
        assert (await answer.json())["error"]["param"] == "stream_options.include_usage"
    async with replica.session.post(NATIVE, data=body, headers=replica.as_tenant()) as answer:
        problem = msgspec.json.decode(await answer.read())
        assert problem["errors"][0]["pointer"] == "/stream_options/include_usage"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", OPENAI, 405),
        ("DELETE", NATIVE, 405),
        ("POST", "/v1/embeddings", 404),
        ("GET", "/v1/requests/x/y/z", 404),
        ("GET", "/", 404),
        ("GET", "/v1/requests/req_nonsense", 404),
        ("GET", "/v1/requests/%ff%00", 404),
    ],
)
async def test_unknown_routes_methods_and_ids_are_answered_as_their_door_does(
    replica: Replica, method: str, path: str, status: int
) -> None:
    async with replica.session.request(method, path, headers=replica.as_tenant()) as answer:
        told(path, answer.headers["content-type"], await answer.read())
        assert answer.status == status
        assert ("allow" in answer.headers) == (status == 405)


async def test_without_an_answer_the_outcome_is_unknown_and_never_a_202(
    replica: Replica, bus: BreakableBus
) -> None:
    bus.error = DeliveryUnknownError("no answer")
    for route in (OPENAI, NATIVE):
        async with replica.session.post(route, data=GOOD, headers=replica.as_tenant()) as answer:
            found = told(route, answer.headers["content-type"], await answer.read())
            assert (answer.status, found["code"]) == (503, "outcome_unknown")
            assert found["request_id"] == answer.headers["x-request-id"]
            assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("5", "false")
    bus.error = None
    async with replica.session.post(NATIVE, data=GOOD, headers=replica.as_tenant()) as answer:
        assert answer.status == 202


@pytest.mark.parametrize("error", [BusUnavailableError("no broker"), BusError("writing there isn't allowed")])
async def test_what_surely_was_not_written_is_safe_to_send_again(
    replica: Replica, bus: BreakableBus, error: BusError
) -> None:
    async with replica.session.post(NATIVE, data=GOOD, headers=replica.as_tenant()) as answer:
        cancel = (await answer.json())["links"]["cancel"]
    bus.error = error
    for route in (OPENAI, NATIVE, cancel):
        async with replica.session.post(route, data=GOOD, headers=replica.as_tenant()) as answer:
            found = told(route, answer.headers["content-type"], await answer.read())
            assert (answer.status, found["code"]) == (503, "not_accepted")
            assert "request_id" not in found, "there is no such request"
            assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("5", "true")
    bus.error = None
    assert len(await replica.other.all_requests()) == 1


async def test_what_the_log_does_not_take_is_a_413(replica: Replica, bus: BreakableBus) -> None:
    bus.error = TooLargeError("too large")
    async with replica.session.post(NATIVE, data=GOOD, headers=replica.as_tenant()) as answer:
        assert answer.status == 413
    bus.error = None


async def test_the_official_client_raises_its_own_exceptions(replica: Replica) -> None:
    async with openai.AsyncOpenAI(base_url=f"{replica.url}/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()
    async with openai.AsyncOpenAI(base_url=f"{replica.url}/v1", api_key="key-atlas", max_retries=0) as client:
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="large", messages=CHAT["messages"])
        assert unknown.value.code == "model_not_found"


async def test_a_replica_takes_no_more_than_its_limit(bus: BreakableBus, tmp_path: Path) -> None:
    async with running(bus, tmp_path, max_open=1) as replica:
        waiting = asyncio.create_task(replica.session.post(OPENAI, data=GOOD, headers=replica.as_tenant()))
        await replica.other.request()
        async with replica.session.post(OPENAI, data=GOOD, headers=replica.as_tenant()) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (503, "overloaded")
        async with replica.session.get("/livez") as answer:
            assert answer.status == 200
        waiting.cancel()
        await asyncio.wait({waiting})


async def test_probes_metrics_and_trace_context_are_there(replica: Replica) -> None:
    for path in ("/livez", "/readyz"):
        async with replica.session.get(path) as answer:
            assert answer.status == 200
    caller = {"traceparent": "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01", "tracestate": "vendor=1"}
    async with replica.session.post(NATIVE, data=GOOD, headers={**replica.as_tenant(), **caller}) as answer:
        assert answer.status == 202
    _, received = await replica.other.request()
    headers = dict(received.headers)
    assert headers["traceparent"].decode().split("-")[1] == "ab" * 16
    assert headers["tracestate"] == b"vendor=1"
    labels = {"route": NATIVE, "status": "202", "tier": "standard"}
    found = replica.telemetry.metrics.registry.get_sample_value("headrace_ingest_requests_total", labels)
    assert found == 1


async def test_before_the_tables_exist_nothing_is_known_yet(tmp_path: Path) -> None:
    nowhere = f"sqlite:///{tmp_path}/not yet%2F?.db"
    async with running(BreakableBus(), tmp_path, database=nowhere, name="two") as other:
        async with other.session.post(NATIVE, data=GOOD, headers=other.as_tenant()) as answer:
            request_id = (await answer.json())["id"]
        async with other.session.get(f"/v1/requests/{request_id}", headers=other.as_tenant()) as answer:
            assert (answer.status, (await answer.json())["status"]) == (200, "queued")
