"""Bad input at every door: the right status in the door's own shape, and not one record in Kafka."""

import io
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from headrace.cli.stack.processes import Stack
from tests.support.callers import Caller, chat_body
from tests.support.stacks import records_in

pytestmark = pytest.mark.kafka

OPENAI, NATIVE = "/v1/chat/completions", "/v1/requests"
GOOD = msgspec.json.encode(chat_body("fine", model="fake", max_tokens=2))
HUGE = b'{"model":"fake","messages":[{"role":"user","content":"' + b"x" * (9 * 1024 * 1024) + b'"}]}'


@dataclass(frozen=True)
class Bad:
    """A bad request and the status that it deserves at either door."""

    name: str
    status: int
    body: bytes = GOOD
    headers: dict[str, str] = field(default_factory=dict)
    key: str | None = "atlas"


CASES = [
    Bad("invalid JSON", 400, b'{"model": "fake", "messages": [}'),
    Bad("no JSON at all", 400, b""),
    Bad("a list", 422, b"[]"),
    Bad("wrong type of model", 422, b'{"model": 7, "messages": []}'),
    Bad("wrong type of stream", 422, b'{"model": "fake", "messages": [], "stream": "yes"}'),
    Bad("no model", 422, b'{"messages": [{"role": "user", "content": "x"}]}'),
    Bad("unknown model", 404, GOOD.replace(b"fake", b"gone")),
    Bad("body too large", 413, HUGE),
    Bad("unknown tier", 422, headers={"X-Priority": "urgent"}),
    Bad("no key", 401, key=None),
    Bad("bad key", 401, key=""),
    Bad("a lone surrogate", 400, b'{"model":"fake","messages":[{"role":"user","content":"\\ud800"}]}'),
    Bad("not a number", 400, b'{"model":"fake","messages":[],"top_p":NaN}'),
]


def code_of(route: str, body: bytes) -> str:
    """The error's code, from the shape that belongs to the door; fails when the shape is another's."""
    document: dict[str, Any] = msgspec.json.decode(body)
    if route.startswith(NATIVE):
        assert {"type", "title", "status", "detail"} <= set(document)
        return str(document["code"])
    assert {"message", "type", "param", "code"} <= set(document["error"])
    return str(document["error"]["code"])


@pytest.mark.parametrize("route", [OPENAI, NATIVE])
@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.name)
async def test_bad_input_is_refused_in_the_doors_own_shape(stack: Stack, bad: Bad, route: str) -> None:
    headers = {"content-type": "application/json", **bad.headers}
    if bad.key is None:
        headers["Authorization"] = ""
    async with Caller(stack.url, stack.keys.get(bad.key or "", "hr_wrong")) as caller:
        answer = await caller.session.post(route, data=io.BytesIO(bad.body), headers=headers)
        body = await answer.read()
    assert answer.status == bad.status, body[:500]
    assert code_of(route, body)


@pytest.mark.parametrize(
    ("method", "route", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/nothing", 404),
        ("DELETE", "/v1/requests", 405),
        ("GET", "/v1/requests/req_nonsense", 404),
        ("GET", "/v1/requests/req_nonsense/result", 404),
        ("POST", "/v1/requests/req_nonsense/cancel", 404),
        ("GET", "/v1/requests/req_nonsense/events", 404),
    ],
)
async def test_unknown_routes_methods_and_ids_are_answered_as_their_door_does(
    stack: Stack, method: str, route: str, status: int
) -> None:
    async with Caller(stack.url, stack.keys["atlas"]) as caller:
        answer = await caller.session.request(method, route)
        assert answer.status == status
        assert code_of(route, await answer.read())


async def test_another_tenants_id_looks_like_none(stack: Stack) -> None:
    async with (
        Caller(stack.url, stack.keys["atlas"]) as atlas,
        Caller(stack.url, stack.keys["birch"]) as birch,
    ):
        request_id = await atlas.submit(chat_body("mine", model="fake", max_tokens=2), tier="standard")
        for verb, tail in (("GET", ""), ("GET", "/result"), ("GET", "/events"), ("POST", "/cancel")):
            foreign = await birch.session.request(verb, f"/v1/requests/{request_id}{tail}")
            forged = await birch.session.request(verb, f"/v1/requests/{request_id[:-2]}aa{tail}")
            assert foreign.status == forged.status == 404
        assert (await atlas.ended(request_id)).http_status == 200


async def test_nothing_that_was_refused_is_in_kafka(stack: Stack) -> None:
    async with Caller(stack.url, stack.keys["atlas"]) as atlas:
        refused = await atlas.session.post(
            OPENAI, data=GOOD.replace(b"fine", b"refused").replace(b"fake", b"gone")
        )
        assert refused.status == 404
        await refused.read()
        kept = await atlas.submit(chat_body("kept", model="fake", max_tokens=2), tier="standard")
        assert (await atlas.ended(kept)).http_status == 200
    records = [
        record
        for tier in ("interactive", "standard", "batch")
        for record in records_in(stack, f"requests.main.{tier}")
    ]
    results = records_in(stack, "results")
    assert any(kept.encode() in record for record in records)
    assert len(records) == len(results), "whatever is kept was accepted, and has ended"
    assert records_in(stack, "dlq") == []
